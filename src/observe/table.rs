//! Tables of names and values on the terminal.

/// `rows` of a name and a value, aligned, under `title`.
pub fn table(title: &str, rows: &[(&str, String)]) -> String {
    let width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let row = |(name, value): &(&str, String)| format!("\n  {name:<width$}  {value}");
    let body: String = rows.iter().map(row).collect();
    format!("{title}{body}")
}
