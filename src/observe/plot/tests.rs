//! Plots of known values.

use super::*;

fn curve(points: Vec<(f64, f64)>) -> Lines {
    Lines {
        name: "loss".into(),
        title: "Loss <of> \"R&D\"".into(),
        x: "step".into(),
        unit: String::new(),
        series: vec![Series {
            name: "</script><b>".into(),
            points,
            colour: 0,
            dashed: false,
        }],
        from_zero: false,
    }
}

#[test]
fn a_curve_has_its_points_where_their_values_are() {
    let plot = curve(vec![(0.0, 0.0), (5.0, 10.0), (10.0, 5.0)])
        .draw()
        .unwrap();
    let start = plot.body.find("d=\"").unwrap() + 3;
    let path = plot.body[start..].split('"').next().unwrap();
    let places: Vec<Vec<f64>> = (path.split(['M', 'L']).skip(1))
        .map(|place| place.split(' ').map(|n| n.parse().unwrap()).collect())
        .collect();
    let [low, high, middle] = [&places[0], &places[1], &places[2]];
    assert_eq!(high[0], f64::midpoint(low[0], middle[0]));
    assert_eq!(middle[1], f64::midpoint(low[1], high[1]));
    assert!(high[1] < low[1], "up is up");
}

#[test]
fn what_comes_from_files_is_never_markup() {
    let plot = curve(vec![(1.0, 2.0), (2.0, 3.0)]).draw().unwrap();
    for text in [plot.inline(), plot.standalone()] {
        assert!(!text.contains("<b>") && !text.contains("<of>"), "{text}");
        assert!(text.contains("R&amp;D"));
    }
    assert_eq!(plot.inline().matches("</script>").count(), 1);
    assert_eq!(escape("a\u{1}b"), "a\u{fffd}b");
}

#[test]
fn numbers_that_are_none_are_left_out_and_many_are_thinned_but_for_peaks() {
    assert!(
        curve(vec![(1.0, f64::NAN), (f64::INFINITY, 1.0)])
            .draw()
            .is_none()
    );
    let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
    points[56_789].1 = 77.0;
    let plot = curve(points).draw().unwrap();
    assert!(plot.inline().len() < 60_000);
    assert!(plot.data.unwrap().contains("[56789.0,77.0]"));
}

#[test]
fn ticks_are_round_and_named_as_short_as_can_be() {
    let scale = |low: f64, high: f64| scale::Scale::of([low, high].into_iter(), (0.0, 100.0), true);
    let names = |scale: scale::Scale, n| -> Vec<String> {
        scale.ticks(n).into_iter().map(|(_, name)| name).collect()
    };
    assert_eq!(
        names(scale(0.0, 1.0), 5),
        ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    );
    assert_eq!(names(scale(0.0, 60_000.0), 3), ["0", "20k", "40k", "60k"]);
    assert_eq!(
        names(scale(1e-3, 10.0), 5),
        ["0.001", "0.01", "0.1", "1", "10"]
    );
    assert_eq!(names(scale(5.0, 5.0).rounded(4), 4), ["2", "4", "6", "8"]);
    assert_eq!(names(scale(0.0, 0.0).rounded(2), 2), ["0.0", "0.5", "1.0"]);
}

#[test]
fn crowded_columns_are_named_by_their_values_and_hide_no_point() {
    let cloud = |points: Vec<(f64, f64)>| Series {
        name: "measured".into(),
        points,
        colour: 7,
        dashed: false,
    };
    let many = |values: &[f64]| -> Vec<(f64, f64)> {
        (0..values.len() * 50)
            .map(|i| (values[i % values.len()], 1.5))
            .collect()
    };
    let drawn = |points: Vec<(f64, f64)>| {
        let plot = curve(vec![(1.0, 1.0), (4.0, 2.0)])
            .draw_over(vec![cloud(points)])
            .unwrap();
        let places: std::collections::BTreeSet<&str> = (plot.body.split("cx=\"").skip(1))
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let names: Vec<String> = (1..=8)
            .map(|i| f64::from(i) / 2.0)
            .map(|value| value.to_string())
            .filter(|name| plot.body.contains(&format!(">{name}</text>")))
            .collect();
        (places.len(), names.join(" "))
    };
    let (places, names) = drawn(many(&[1.0, 2.0, 4.0]));
    assert!(places > 100, "{places}");
    assert_eq!(names, "1 2 4");
    // Few points stay where they are, and so do those of a quantity.
    assert_eq!(drawn(vec![(1.0, 1.5), (2.0, 1.5), (4.0, 1.5)]).0, 3);
    assert_eq!(drawn(many(&[1.0, 1.5, 4.0])).0, 3);
}

#[test]
fn a_picture_has_the_size_of_its_drawing() {
    let plot = curve(vec![(1.0, 2.0), (2.0, 3.0)]).draw().unwrap();
    let png = match plot.png() {
        Ok(png) => png,
        Err(error) => {
            assert!(error.to_string().contains("--format svg"), "{error}");
            return;
        }
    };
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(&png[1..4], b"PNG");
    assert_eq!(number(16), 3 * 480);
    assert_eq!(f64::from(number(20)), 3.0 * (plot.size.1 + HEAD));
}

#[test]
fn parts_of_bars_add_up_to_their_length() {
    let keys = ["compute", "wait"].map(|key| (key.to_owned(), key.to_owned()));
    let bars = [[30.0, 10.0], [20.0, 20.0]].iter().enumerate();
    let plot = Bars {
        name: "ranks".into(),
        title: "Time".into(),
        keys: keys.to_vec(),
        unit: "seconds".into(),
        bars: bars
            .map(|(i, parts)| Bar {
                name: format!("rank {i}"),
                parts: parts.to_vec(),
            })
            .collect(),
    };
    let plot = plot.draw().unwrap();
    let widths: Vec<f64> = (plot.body.split("width=\"").skip(1))
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .filter(|width| *width > 10.0)
        .collect();
    assert_eq!(widths.len(), 4);
    let sums = [widths[0] + widths[1], widths[2] + widths[3]];
    assert!((sums[0] - sums[1]).abs() < 0.2, "{widths:?}");
    assert!((widths[0] - 3.0 * widths[1]).abs() < 0.3, "{widths:?}");
}
