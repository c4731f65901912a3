//! The table of a study: for each configuration the middle of its runs, and how sure that is.

use std::fmt::Write;

use crate::study::Middle;

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its values, one for each axis.
    pub at: Vec<String>,
    /// A cell for each column; nothing where no run has the figure.
    pub cells: Vec<Option<Middle>>,
    /// What others have published, where they have.
    pub published: Vec<Option<f64>>,
    /// Runs that are done, and those that failed.
    pub runs: (usize, usize),
}

/// All of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Heads of the axes.
    pub axes: Vec<String>,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// The configurations, in the order of the study.
    pub rows: Vec<Row>,
}

/// What a table is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, and for web pages of projects.
    Markdown,
    /// For programs: every number with all digits.
    Csv,
    /// For papers.
    Latex,
}

impl Table {
    /// The table as text.
    pub fn text(&self, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(),
            Format::Csv => self.csv(),
            Format::Latex => self.latex(),
        }
    }

    /// Whether some column has published figures.
    fn is_compared(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row.published[column].is_some())
    }

    /// Heads and cells as people read them.
    pub fn words(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut heads = self.axes.clone();
        for (i, name) in self.columns.iter().enumerate() {
            heads.push(name.clone());
            if self.is_compared(i) {
                heads.push(format!("{name}, published"));
            }
        }
        heads.push("runs".into());
        let row = |row: &Row| {
            let mut words = row.at.clone();
            for (i, cell) in row.cells.iter().enumerate() {
                words.push(cell.as_ref().map_or("-".into(), shown));
                if self.is_compared(i) {
                    words.push(row.published[i].map_or("none".into(), short));
                }
            }
            words.push(match row.runs {
                (done, 0) => done.to_string(),
                (done, failed) => format!("{done}, {failed} failed"),
            });
            words
        };
        (heads, self.rows.iter().map(row).collect())
    }

    fn markdown(&self) -> String {
        let (heads, rows) = self.words();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| &row[column]).chain([&heads[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let mut text = String::new();
        let mut line = |cells: &[String], fill: char| {
            for (cell, width) in cells.iter().zip(&widths) {
                let room = width - cell.chars().count();
                let _ = write!(text, "| {cell}{} ", fill.to_string().repeat(room));
            }
            text.push_str("|\n");
        };
        line(&heads, ' ');
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        line(&rule, '-');
        rows.iter().for_each(|row| line(row, ' '));
        text
    }

    fn csv(&self) -> String {
        let mut heads = self.axes.clone();
        for name in &self.columns {
            let parts = ["", " low", " high", " published"];
            heads.extend(parts.map(|part| format!("{name}{part}")));
        }
        heads.extend(["runs".into(), "failed".into()]);
        let number = |number: Option<f64>| number.map_or(String::new(), |n| n.to_string());
        let rows = self.rows.iter().map(|row| {
            let mut cells = row.at.clone();
            for (cell, published) in row.cells.iter().zip(&row.published) {
                let interval = cell.as_ref().and_then(|cell| cell.interval);
                cells.extend([
                    number(cell.as_ref().map(|cell| cell.median)),
                    number(interval.map(|(low, _)| low)),
                    number(interval.map(|(_, high)| high)),
                    number(*published),
                ]);
            }
            cells.extend([row.runs.0.to_string(), row.runs.1.to_string()]);
            cells
        });
        csv(&heads, &rows.collect::<Vec<_>>())
    }

    fn latex(&self) -> String {
        let (heads, rows) = self.words();
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            format!("{} \\\\\n", cells.join(" & "))
        };
        let columns = "l".repeat(self.axes.len()) + &"r".repeat(heads.len() - self.axes.len());
        let body: String = rows.iter().map(|row| line(row)).collect();
        format!(
            "\\begin{{tabular}}{{{columns}}}\n\\hline\n{}\\hline\n{body}\\hline\n\\end{{tabular}}\n",
            line(&heads)
        )
    }
}

/// Heads and rows as a file of values with commas between.
pub fn csv(heads: &[String], rows: &[Vec<String>]) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for cells in std::iter::once(heads).chain(rows.iter().map(Vec::as_slice)) {
        writer.write_record(cells).expect("memory takes it");
    }
    let bytes = writer.into_inner().expect("memory takes it");
    String::from_utf8(bytes).expect("cells are text")
}

/// A cell as people read it: the middle, and in brackets the interval.
fn shown(cell: &Middle) -> String {
    match cell.interval {
        None => short(cell.median),
        Some((low, high)) if low == high => short(cell.median),
        Some((low, high)) => format!("{} [{}, {}]", short(cell.median), short(low), short(high)),
    }
}

/// Four digits that count, or a whole number.
pub fn short(number: f64) -> String {
    let whole = number.fract() == 0.0 && number.abs() < 1e7;
    if whole || !number.is_finite() {
        return number.to_string();
    }
    let digits = 3 - number.abs().log10().floor() as i32;
    match number.abs() {
        1e-4..1e7 => format!("{number:.*}", digits.max(0) as usize),
        _ => format!("{number:.3e}"),
    }
}

fn escaped(text: &str) -> String {
    let mut clean = String::new();
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                clean.push('\\');
                clean.push(letter);
            }
            '\\' => clean.push_str("\\textbackslash{}"),
            '~' => clean.push_str("\\textasciitilde{}"),
            '^' => clean.push_str("\\textasciicircum{}"),
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            axes: vec!["batch".into(), "model_file".into()],
            columns: vec!["s".into(), "accuracy %".into()],
            rows: vec![
                Row {
                    at: vec!["32".into(), "a".into()],
                    cells: vec![Middle::of(&[1.5, 2.5, 2.0]), Middle::of(&[91.25])],
                    published: vec![Some(12.0), None],
                    runs: (3, 0),
                },
                Row {
                    at: vec!["64".into(), "b".into()],
                    cells: vec![None, None],
                    published: vec![None, None],
                    runs: (0, 3),
                },
            ],
        }
    }

    #[test]
    fn a_table_is_written_for_people_programs_and_papers() {
        let table = table();
        let expected = "\
| batch | model_file | s                | s, published | accuracy % | runs        |
| ----- | ---------- | ---------------- | ------------ | ---------- | ----------- |
| 32    | a          | 2 [1.500, 2.500] | 12           | 91.25      | 3           |
| 64    | b          | -                | none         | -          | 0, 3 failed |
";
        assert_eq!(table.text(Format::Markdown), expected);
        let csv = table.text(Format::Csv);
        let second = csv.lines().nth(1).unwrap();
        assert_eq!(second, "32,a,2,1.5,2.5,12,91.25,,,,3,0");
        let latex = table.text(Format::Latex);
        assert!(latex.contains("model\\_file") && latex.contains("accuracy \\%"));
        assert!(latex.contains("\\begin{tabular}{llrrrr}"));
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.25, 1234.5678, 98.765, 0.000_012_3, 1.5e9].map(short);
        assert_eq!(all, ["0", "0.2500", "1235", "98.77", "1.230e-5", "1.500e9"]);
    }
}
