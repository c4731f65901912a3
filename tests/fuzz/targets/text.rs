//! Text that becomes sparse rows: LibSVM, click logs, tables and Vowpal Wabbit's format, plain and gzipped.

use phalanx::comm::threads_of_one_rank;
use phalanx::data::rows::{RowSet, describe};
use phalanx::data::text::features::Numeric;
use phalanx::data::text::{Format, Import, import, table};

use super::{Place, Target, gzip};

pub const LIBSVM: Target = Target {
    name: "libsvm",
    seeds: |_| plain_and_packed(&["+1 1:1 3:0.5 # seen\n-1 2:-2e1\t7:1\n0\n", "1 0:1 1:2\n"]),
    run: |place, input| {
        // Found by a first pass, or given.
        let (none, some) = (None, Some(100));
        let numbered = |features, base| Format::Libsvm { features, base };
        take(place, input, numbered(none, None));
        take(place, input, numbered(some, Some(1)));
    },
};

pub const CRITEO: Target = Target {
    name: "criteo",
    seeds: |_| {
        let integers = "1\t-2\t\t0\t38\t1000\t0\t0\t0\t0\t0\t0\t7";
        let line = |label: u8, category: &str| {
            format!("{label}\t{integers}\t{}\n", [category; 26].join("\t"))
        };
        plain_and_packed(&[
            &(line(1, "68fd1e64") + &line(0, "")),
            &line(0, "0123456789abcdef"),
        ])
    },
    run: |place, input| {
        for numeric in [Numeric::Bucket, Numeric::Value] {
            let features = FEATURES;
            take(place, input, Format::Criteo { features, numeric });
        }
    },
};

pub const CSV: Target = Target {
    name: "csv",
    seeds: |_| {
        let many: String = (0..12).map(|i| format!("{i}.5,cook,{}\n", i % 2)).collect();
        plain_and_packed(&[
            "age,job,rich\n38,cook,yes\n21,\"smith, black\",no\n",
            &format!("age,job,rich\n{many}"),
            "1,,\"say \"\"no\"\"\",0\n\n2,x,,1\n",
        ])
    },
    run: |place, input| {
        for header in [true, false] {
            let options = table::Options {
                features: FEATURES,
                numeric: Numeric::Bucket,
                numeric_columns: None,
                label: None,
                positive: (!header).then(|| "yes".into()),
                drop: Vec::new(),
            };
            let separator = b',';
            let csv = Format::Csv {
                header,
                separator,
                options,
            };
            take(place, input, csv);
        }
    },
};

pub const VW: Target = Target {
    name: "vw",
    seeds: |_| {
        plain_and_packed(&[
            "1 |user age:3 new |page news\n-1 1.0 0 'row7|site:0.5 news id:3 | plain\n",
            "0 |\n1 tag|a b\r\n",
        ])
    },
    run: |place, input| {
        let features = FEATURES;
        take(place, input, Format::Vw { features });
    },
};

/// Few, so that counting those that occur takes no time.
const FEATURES: usize = 1000;

fn plain_and_packed(texts: &[&str]) -> Vec<Vec<u8>> {
    let packed = texts.iter().map(|text| gzip(text.as_bytes()));
    let plain = texts.iter().map(|text| text.as_bytes().to_vec());
    plain.chain(packed).collect()
}

/// Imports the text, once with shards of a few bytes, and looks at what became of it.
fn take(place: &Place, input: &[u8], format: Format) {
    let inputs = vec![place.put("text", input)];
    let asked = |shard_size, skip_bad| Import {
        inputs: inputs.clone(),
        out: place.path("imported"),
        format: format.clone(),
        like: None,
        names: skip_bad,
        shard_size,
        skip_bad,
        force: true,
    };
    let comm = &threads_of_one_rank(1)[0];
    // Many pieces of a long text are many files.
    let small = (input.len() / 4).max(16);
    for (size, skip_bad) in [(1 << 20, false), (small, true)] {
        if import(comm, &asked(size, skip_bad)).is_ok() {
            let set = RowSet::open(&place.path("imported")).expect("an import makes a set");
            describe(&set).expect("an import makes a good set");
        }
    }
    place.remove("imported");
}
