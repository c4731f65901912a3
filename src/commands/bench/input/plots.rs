//! What a study found, in pictures, and all of it on one page.

use super::analysis::{ByParameter, Joint};
use crate::observe::plot::{Lines, Plot, Series, escape};
use crate::observe::{Section, gallery, shell};
use crate::study::Fitted;

/// Points of a curve.
const POINTS: usize = 60;

/// Of each parameter its curves and what the best of them leaves, and of each regression over all what is left.
pub(super) fn all(parameters: &[ByParameter], joint: &[Joint]) -> Vec<Plot> {
    let parameters = parameters
        .iter()
        .flat_map(|one| [curves(one), left_by_parameter(one)]);
    let joint = joint.iter().map(left_of_all);
    parameters.chain(joint).flatten().collect()
}

/// Measured speeds over a parameter, and the curves for them, the best first.
fn curves(one: &ByParameter) -> Option<Plot> {
    let (low, high) = (one.x.iter()).fold((f64::MAX, 0.0_f64), |(low, high), &x| {
        (low.min(x), high.max(x))
    });
    let at = |i: usize| low + (high - low) * i as f64 / (POINTS - 1) as f64;
    let measured = Series {
        name: "measured".into(),
        points: one.x.iter().copied().zip(one.y.iter().copied()).collect(),
        colour: 7,
        dashed: false,
    };
    let curve = |(number, curve): (usize, &crate::study::Curve)| Series {
        name: format!(
            "{} (AIC +{:.0})",
            curve.shape.name(),
            one.described.behind(curve)
        ),
        points: (0..POINTS).map(at).map(|x| (x, curve.at(x))).collect(),
        colour: number,
        dashed: number > 0,
    };
    let (way, factor) = (one.way, one.factor.name());
    let lines = Lines {
        name: format!("{}-by-{factor}", file(way)),
        title: format!("{way}: speed by {factor}"),
        x: factor.into(),
        unit: "multiples of the geometric mean where nothing else differs".into(),
        series: one.described.curves.iter().enumerate().map(curve).collect(),
        from_zero: false,
    };
    lines.draw_over(vec![measured])
}

/// What the best curve leaves, over the parameter.
fn left_by_parameter(one: &ByParameter) -> Option<Plot> {
    let (way, factor, curve) = (one.way, one.factor.name(), &one.described.curves[0]);
    left(
        &curve.fitted,
        &one.x,
        Lines {
            name: format!("residuals-{}-by-{factor}", file(way)),
            title: format!("{way} by {factor}: residuals, {}", curve.shape.name()),
            x: factor.into(),
            unit: "multiples of the geometric mean".into(),
            series: Vec::new(),
            from_zero: false,
        },
    )
}

/// What a regression over all parameters leaves, over what it says.
fn left_of_all(one: &Joint) -> Option<Plot> {
    let (of, scale) = match one.logarithmic {
        true => ("ln(images/s)", "log"),
        false => ("images/s", "linear"),
    };
    left(
        &one.fitted,
        &one.fitted.values,
        Lines {
            name: format!("residuals-{}-{scale}", file(&one.of)),
            title: format!("{}: residuals of {of}", one.of),
            x: format!("fitted {of}"),
            unit: of.into(),
            series: Vec::new(),
            from_zero: false,
        },
    )
}

/// What is left of a regression at `x`.
fn left(fitted: &Fitted, x: &[f64], lines: Lines) -> Option<Plot> {
    let points: Vec<(f64, f64)> = (x.iter().copied())
        .zip(fitted.residuals.iter().copied())
        .collect();
    let ends = (points.iter()).fold((f64::MAX, f64::MIN), |(low, high), point| {
        (point.0.min(low), point.0.max(high))
    });
    let zero = Series {
        name: format!("R² {:.3}", fitted.r_squared()),
        points: vec![(ends.0, 0.0), (ends.1, 0.0)],
        colour: 0,
        dashed: true,
    };
    let residuals = Series {
        name: "residuals".into(),
        points,
        colour: 7,
        dashed: false,
    };
    let lines = Lines {
        series: vec![zero],
        ..lines
    };
    lines.draw_over(vec![residuals])
}

/// What is called so, as a part of a file's name.
fn file(name: &str) -> String {
    name.replace(", ", "-")
}

/// All of a study on one page: the plots, and the tables as they are printed.
pub(super) fn page(tables: &[String], plots: &[Plot]) -> String {
    let tables: String = (tables.iter())
        .map(|table| {
            format!(
                "<pre class=\"scroll\" tabindex=\"0\">{}</pre>",
                escape(table)
            )
        })
        .collect();
    let sections = [
        (
            "plots",
            "Plots",
            gallery(plots, "There is nothing to draw."),
        ),
        ("tables", "Tables", tables),
    ];
    let sections = sections.map(Section::titled);
    let below = "<p class=\"sub\">Photos into batches: images a second by parameter, and what describes them best.</p>";
    let source = "Every figure is from measurements.csv beside it.";
    shell(
        "phalanx bench input",
        "How fast photos become batches",
        below,
        &sections,
        source,
    )
}
