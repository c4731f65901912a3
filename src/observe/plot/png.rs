//! SVG into pixels.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use crate::{Error, Result};

/// Pixels for each unit.
const SCALE: f32 = 3.0;

/// The picture of a drawing.
pub(super) fn render(svg: &str) -> Result<Vec<u8>> {
    let problem = |what: String| Error::Usage(format!("the plot cannot be drawn as PNG: {what}"));
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        let what =
            "no font is installed here; take --format svg, or install one (fonts-dejavu-core)";
        return Err(problem(what.into()));
    }
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".into(),
        ..Options::default()
    };
    let tree = Tree::from_str(svg, &options).map_err(|error| problem(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let size = size.ok_or_else(|| problem("it has no size".into()))?;
    let pixels = Pixmap::new(size.width(), size.height());
    let mut pixels = pixels.ok_or_else(|| problem("it is too large".into()))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels
        .encode_png()
        .map_err(|error| problem(error.to_string()))
}
