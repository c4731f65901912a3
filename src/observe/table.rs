//! Tables of names and values on the terminal.

/// `rows` of a name and a value, aligned, under `title`.
pub fn table<N: AsRef<str>>(title: &str, rows: &[(N, String)]) -> String {
    let names = rows.iter().map(|(name, _)| name.as_ref().chars().count());
    let width = names.max().unwrap_or(0);
    let row = |(name, value): &(N, String)| format!("\n  {:<width$}  {value}", name.as_ref());
    let body: String = rows.iter().map(row).collect();
    format!("{title}{body}")
}
