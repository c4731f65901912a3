//! What all pages have: head, style and script, links to the sections.

use super::super::plot::{Plot, escape};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A part of a page.
pub struct Section {
    /// Its place in the page's address.
    pub id: &'static str,
    /// What the link to it says.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is in it, as HTML.
    pub body: String,
}

impl Section {
    /// Of a place, a heading, which the link says too, and what is in it.
    pub fn titled((id, title, body): (&'static str, &'static str, String)) -> Self {
        Self {
            id,
            name: title,
            title,
            body,
        }
    }
}

/// A page of `sections` that needs nothing else: `kind` says what it is, `below` stands under the title as HTML, and `source` says where
/// its figures are from.
pub fn shell(kind: &str, title: &str, below: &str, sections: &[Section], source: &str) -> String {
    let [kind, title, source] = [kind, title, source].map(escape);
    let links: String = (sections.iter())
        .map(|Section { id, name, .. }| format!("<a href=\"#{id}\">{name}</a>"))
        .collect();
    let body: String = sections.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title} – phalanx</title>\
         <style>{STYLE}</style></head><body>\
         <a class=\"skip\" href=\"#main\">Skip to the report</a>\
         <header><p class=\"kicker\">{kind}</p><h1>{title}</h1>{below}</header>\
         <nav aria-label=\"Sections\">{links}</nav><main id=\"main\">{body}</main>\
         <footer>Written by phalanx {}. {source} Nothing is loaded from elsewhere.</footer>\
         <script>{SCRIPT}</script></body></html>\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn section(one: &Section) -> String {
    let Section {
        id, title, body, ..
    } = one;
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-title\"><h2 id=\"{id}-title\">{title}</h2>{body}</section>"
    )
}

/// Plots beside each other, or why there are none.
pub fn gallery(all: &[Plot], none: &str) -> String {
    match all.is_empty() {
        true => missing(none),
        false => {
            let figures: String = all.iter().map(Plot::inline).collect();
            format!("<div class=\"plots\">{figures}</div>")
        }
    }
}

/// What is not there, and why.
pub fn missing(why: &str) -> String {
    format!("<p class=\"missing\">{}</p>", escape(why))
}

/// Rows of text under heads, which scroll by themselves where they are wider than the page; `about` says what they are.
pub fn grid<'a>(
    about: &str,
    heads: &[String],
    rows: impl Iterator<Item = &'a Vec<String>>,
) -> String {
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
            .collect()
    };
    let rows: String = rows
        .map(|row| format!("<tr>{}</tr>", cells("td", row)))
        .collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"figures\"><thead><tr>{}</tr></thead><tbody>{rows}</tbody></table></div>",
        escape(about),
        cells("th", heads)
    )
}
