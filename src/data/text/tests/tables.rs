//! Imports of tables.

use super::*;
use crate::data::text::features::number;
use crate::data::text::table::{Options, Role};

const FEATURES: usize = 1 << 16;

fn options() -> Options {
    Options {
        features: FEATURES,
        numeric: Numeric::Bucket,
        numeric_columns: None,
        label: None,
        positive: None,
        drop: Vec::new(),
    }
}

fn csv(header: bool, options: Options) -> Format {
    Format::Csv {
        header,
        separator: b',',
        options,
    }
}

/// Twelve people of different ages.
fn people() -> String {
    let person = |i: usize| {
        let job = [" cook ", "\"smith, black\"", ""][i % 3];
        let answer = ["yes", "no"][i % 2];
        format!("{},{job},{},{i},{answer}\n", 20 + i, i % 2)
    };
    "age,job,sex,id,rich\n".to_owned() + &(0..12).map(person).collect::<String>()
}

fn roles(report: &Report) -> Vec<Role> {
    let Encoding::Csv { scheme, .. } = &report.encoding else {
        panic!("{:?}", report.encoding);
    };
    scheme.columns.iter().map(|column| column.1).collect()
}

fn indices(tokens: &[&str]) -> Vec<u32> {
    let mut all: Vec<_> = tokens
        .iter()
        .map(|token| number(token.as_bytes(), FEATURES))
        .collect();
    all.sort();
    all
}

#[test]
fn a_look_at_the_first_lines_tells_numbers_from_categories() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let inputs = [file(folder.path(), "people.csv", &people())];
    let mut options = options();
    options.drop = vec!["id".into()];
    let mut asked = ask(&inputs, &out, csv(true, options));
    asked.names = true;
    let reports = run_ranks(2, |comm| import(comm, &asked).unwrap());
    use Role::{Category, Dropped, Label, Number};
    assert_eq!(
        roles(&reports[1]),
        [Number, Category, Category, Dropped, Label]
    );
    let rows = rows(&out);
    assert_eq!(rows.len(), 12);
    // ln 21 squared is 9.27, ln 22 squared 9.55, ln 23 squared 9.83.
    assert_eq!(rows[0].0, indices(&["age=p9", "job=cook", "sex=0"]));
    assert_eq!(rows[1].0, indices(&["age=p9", "job=smith, black", "sex=1"]));
    assert_eq!(rows[2].0, indices(&["age=p9", "job=", "sex=0"]));
    assert_eq!((rows[0].2, rows[1].2), (true, false));
    let names = RowSet::open(&out).unwrap().names().unwrap();
    assert_eq!(
        names[&number(b"job=smith, black", FEATURES)],
        "job=smith, black"
    );
}

#[test]
fn a_test_table_takes_the_decisions_over() {
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = (folder.path().join("train"), folder.path().join("test"));
    let inputs = [file(folder.path(), "people.csv", &people())];
    alone(&ask(&inputs, &train, csv(true, options()))).unwrap();
    // Alone, three ages would be categories.
    let text = "age,job,sex,id,rich\r\n20,cook,1,77,yes\r\nunknown,,0,78,no\r\n";
    let mut asked = ask(
        &[file(folder.path(), "few.csv", text)],
        &test,
        csv(true, options()),
    );
    asked.like = Some(train.clone());
    alone(&asked).unwrap();
    let (train, rows) = (RowSet::open(&train).unwrap(), rows(&test));
    train.fits(&RowSet::open(&test).unwrap()).unwrap();
    // ln 78 squared is 18.98, ln 79 squared 19.09.
    assert_eq!(
        rows[0].0,
        indices(&["age=p9", "job=cook", "sex=1", "id=p18"])
    );
    assert_eq!(
        rows[1].0,
        indices(&["age=unknown", "job=", "sex=0", "id=p19"])
    );
    asked.inputs = vec![file(
        folder.path(),
        "odd.csv",
        "age,work,sex,id,rich\n1,2,3,4,no\n",
    )];
    asked.skip_bad = true;
    let error = alone(&asked).unwrap_err().to_string();
    assert!(
        error.contains("odd.csv, line 1: column 2 is called `work`, expected `job`"),
        "{error}"
    );
}

#[test]
fn columns_may_have_numbers_for_names_and_labels_any_word() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let inputs = [file(
        folder.path(),
        "t.csv",
        "- 50000., 0.5, a\n50000+., -3 ,b\n",
    )];
    let error = alone(&ask(&inputs, &out, csv(false, options())))
        .unwrap_err()
        .report();
    assert!(
        error.contains("has labels `a`, `b` in column `3`") && error.contains("--positive"),
        "{error}"
    );
    let mut chosen = options();
    chosen.label = Some("1".into());
    chosen.positive = Some("50000+.".into());
    chosen.numeric_columns = Some(vec!["2".into()]);
    chosen.numeric = Numeric::Value;
    alone(&ask(&inputs, &out, csv(false, chosen.clone()))).unwrap();
    let rows = rows(&out);
    assert_eq!((rows[0].2, rows[1].2), (false, true));
    let at = rows[0]
        .0
        .iter()
        .position(|&i| i == number(b"2", FEATURES))
        .unwrap();
    assert_eq!(rows[0].1[at], 1.5f32.ln());
    let at = rows[1]
        .0
        .iter()
        .position(|&i| i == number(b"2", FEATURES))
        .unwrap();
    assert_eq!(rows[1].1[at], -(4f32.ln()));
    chosen.label = Some("income".into());
    let error = alone(&ask(&inputs, &out, csv(false, chosen)))
        .unwrap_err()
        .to_string();
    assert_eq!(error, "there is no column `income`: there are 1, 2, 3");
}

#[test]
fn a_bad_line_of_a_table_is_refused_with_what_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let start = "a,b\n".to_owned() + &"x,1\n".repeat(1500);
    let cases = [
        ("x,1,2", "line 1502: 3 fields, expected 2"),
        ("x", "line 1502: 1 fields, expected 2"),
        ("x,maybe", "line 1502: label `maybe`, expected 0 or 1"),
        ("x,", "line 1502: label nothing"),
        (
            "\"x\ny\",1",
            "line 1502: a quoted field does not end on its line",
        ),
    ];
    for (line, says) in cases {
        let inputs = [file(folder.path(), "t.csv", &format!("{start}{line}\n"))];
        let error = alone(&ask(&inputs, &out, csv(true, options())))
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{line}: {error}");
    }
    let twice = [file(folder.path(), "t.csv", "a,a\n1,0\n")];
    let error = alone(&ask(&twice, &out, csv(true, options())))
        .unwrap_err()
        .to_string();
    assert!(error.contains("two columns called `a`"), "{error}");
}
