//! Elements of SVG.

use std::fmt::Write;

/// Text that is no markup, wherever it stands.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Neither XML nor HTML takes these, not even by number.
            char if char.is_control() && !"\n\t".contains(char) => safe.push('\u{fffd}'),
            char => safe.push(char),
        }
    }
    safe
}

/// What is drawn, in the order in which it is.
#[derive(Default)]
pub(super) struct Drawing(pub(super) String);

impl Drawing {
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Text whose anchor (`start`, `middle` or `end`) is at a place.
    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: &str, text: &str) {
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// A rectangle from its upper left corner, with what a pointer that rests on it is told.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), told: &str) {
        self.faded(class, at, size, (1.0, told));
    }

    /// The same, let through by so much.
    pub(super) fn faded(
        &mut self,
        class: &str,
        at: (f64, f64),
        size: (f64, f64),
        (solid, told): (f64, &str),
    ) {
        let told = match told {
            "" => String::new(),
            told => format!("<title>{}</title>", escape(told)),
        };
        let solid = match solid {
            1.0 => String::new(),
            solid => format!(" fill-opacity=\"{solid:.2}\""),
        };
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"{solid}>{told}</rect>",
            at.0, at.1, size.0.max(0.0), size.1.max(0.0)
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (i, (x, y)) in points.enumerate() {
            let verb = if i == 0 { 'M' } else { 'L' };
            write!(path, "{verb}{x:.1} {y:.1}").expect("writing to memory");
        }
        self.add(format_args!("<path class=\"{class}\" d=\"{path}\"/>"));
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        self.add(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>"
        ));
    }

    /// Names of things beside their colours, in rows from (x, y) on that are `width` wide; gives the height of all. What is drawn in
    /// dashes, as the second class says, has two.
    pub(super) fn legend(
        &mut self,
        (x, y): (f64, f64),
        width: f64,
        items: &[(String, String)],
    ) -> f64 {
        let (mut left, mut row) = (0.0, 0.0);
        for (class, name) in items {
            let wide = 26.0 + 6.4 * name.chars().count() as f64;
            if left > 0.0 && left + wide > width {
                (left, row) = (0.0, row + 1.0);
            }
            let at = (x + left, y + 18.0 * row);
            let (class, parts) = match class.strip_suffix(" dashed") {
                Some(class) => (class, &[(0.0, 4.0), (6.0, 4.0)][..]),
                None => (class.as_str(), &[(0.0, 10.0)][..]),
            };
            for (right, wide) in parts {
                let at = (at.0 + right, at.1);
                self.rect(&format!("fill {class}"), at, (*wide, 10.0), "");
            }
            self.text("key", (at.0 + 15.0, at.1 + 9.0), "start", name);
            left += wide;
        }
        18.0 * (row + 1.0)
    }

    fn add(&mut self, element: std::fmt::Arguments) {
        self.0.write_fmt(element).expect("writing to memory");
    }
}
