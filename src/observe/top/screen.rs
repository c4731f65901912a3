//! The live view on a terminal.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Gauge, Paragraph, Row, Table, TableState};

use super::seen::{COLUMNS, Seen, widths};
use super::{Life, State};
use crate::{Error, Result};

/// From one look at the run to the next.
const EVERY: Duration = Duration::from_millis(500);

/// Shows the run until the user has seen enough; gives what was seen last.
pub fn watch(run: &Path) -> Result<Seen> {
    // What is wrong with the folder is told before the screen is taken.
    let mut seen = Seen::look(run)?;
    let mut terminal = ratatui::try_init().map_err(Error::io("draw on", "the terminal"))?;
    let mut state = TableState::default().with_selected(0);
    let shown = loop {
        let drawn = terminal.draw(|frame| draw(frame, &seen, &mut state));
        if let Err(error) = drawn {
            break Err(error);
        }
        match wait(&mut state, seen.ranks.len()) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) => break Err(error),
        }
        if let Ok(mut next) = Seen::look(run) {
            next.compare(&seen);
            seen = next;
        }
    };
    ratatui::restore();
    shown.map_err(Error::io("draw on", "the terminal"))?;
    Ok(seen)
}

/// Waits for the next look, and heeds keys meanwhile; tells whether to go on.
fn wait(state: &mut TableState, ranks: usize) -> io::Result<bool> {
    let until = Instant::now() + EVERY;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(true);
        }
        let Event::Key(key) = event::read()? else {
            // The terminal has another size: draw anew.
            return Ok(true);
        };
        if key.kind == KeyEventKind::Press && !heed(key, state, ranks) {
            return Ok(false);
        }
        if key.kind == KeyEventKind::Press {
            return Ok(true);
        }
    }
}

/// Does what a key says; tells whether to go on.
fn heed(key: KeyEvent, state: &mut TableState, ranks: usize) -> bool {
    let at = state.selected().unwrap_or(0);
    let last = ranks.saturating_sub(1);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Down | KeyCode::Char('j') => state.select(Some((at + 1).min(last))),
        KeyCode::Up | KeyCode::Char('k') => state.select(Some(at.saturating_sub(1))),
        KeyCode::PageDown => state.select(Some((at + 20).min(last))),
        KeyCode::PageUp => state.select(Some(at.saturating_sub(20))),
        KeyCode::Home => state.select(Some(0)),
        KeyCode::End => state.select(Some(last)),
        _ => {}
    }
    true
}

fn draw(frame: &mut Frame, seen: &Seen, state: &mut TableState) {
    let title = seen.title();
    let height = title.lines().count() as u16;
    let rows = [
        Constraint::Length(height),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [head, bar, table, foot] = Layout::vertical(rows).areas(frame.area());
    let colour = match seen.life {
        Life::Running => Color::Green,
        Life::Finished | Life::Stopped => Color::Blue,
        Life::Failed | Life::Hung | Life::Gone(_) => Color::Red,
    };
    let lines: Vec<Line> = title.lines().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).style(Style::new().fg(colour)), head);
    let done = seen.step() as f64 / seen.total().max(1) as f64;
    let gauge = Gauge::default()
        .ratio(done.clamp(0.0, 1.0))
        .gauge_style(Style::new().fg(colour));
    frame.render_widget(gauge, bar);
    let cells = seen.cells();
    let widths = widths(&cells).map(|width| Constraint::Length(width as u16));
    let rows = cells.into_iter().zip(&seen.ranks).map(|(cells, now)| {
        let style = match now.state {
            State::Failed => Style::new().fg(Color::Red),
            State::Ended => Style::new().add_modifier(Modifier::DIM),
            State::Running => Style::new(),
        };
        Row::new(cells).style(style)
    });
    let head = Row::new(COLUMNS).style(Style::new().add_modifier(Modifier::BOLD));
    let list = Table::new(rows, widths)
        .header(head)
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(list, table, state);
    frame.render_widget(Paragraph::new("q ends, arrows go through the ranks"), foot);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::observe::top::{Now, clock};

    fn now(rank: usize) -> Now {
        Now {
            rank,
            ranks: 30,
            host: "node1".into(),
            pid: 100 + rank as u32,
            time: clock(),
            state: State::Running,
            seconds: 3.0,
            step: 50,
            total: 100,
            epoch: 0.5,
            phase: "compute".into(),
            loss: Some(0.25),
            samples: 5000,
            samples_per_s: 1000.0,
            cpu_percent: 99.0,
            resident_mb: 77.0,
            compute_percent: 90.0,
            exchange_percent: 4.0,
            wait_percent: 5.0,
            load_percent: 1.0,
        }
    }

    /// What a terminal of so many lines shows.
    fn screen(seen: &Seen, lines: u16, state: &mut TableState) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, lines)).unwrap();
        terminal.draw(|frame| draw(frame, seen, state)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn all_ranks_can_be_seen_on_a_small_terminal() {
        let seen = Seen {
            run: "run".into(),
            ranks: (0..30).map(now).collect(),
            life: Life::Running,
        };
        let mut state = TableState::default().with_selected(0);
        let text = screen(&seen, 12, &mut state);
        assert!(text.contains("run: running"), "{text}");
        assert!(
            text.contains("30 ranks on 1 host, step 50 of 100"),
            "{text}"
        );
        assert!(
            text.contains("30000 samples/s") && text.contains("50%"),
            "{text}"
        );
        assert!(text.contains(" 105 ") && !text.contains(" 129 "), "{text}");
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert!(heed(key(KeyCode::End), &mut state, 30));
        let text = screen(&seen, 12, &mut state);
        assert!(text.contains(" 129 ") && !text.contains(" 105 "), "{text}");
        assert!(
            heed(key(KeyCode::Down), &mut state, 30),
            "the last stays the last"
        );
        assert_eq!(state.selected(), Some(29));
        assert!(!heed(key(KeyCode::Char('q')), &mut state, 30));
    }

    #[test]
    fn a_rank_that_is_silent_beside_others_shows() {
        let mut ranks: Vec<Now> = (0..2).map(now).collect();
        ranks[1].time -= 30.0;
        let seen = Seen {
            run: "run".into(),
            ranks,
            life: Life::Running,
        };
        assert!(seen.table().contains("silent 30 s"), "{}", seen.table());
    }
}
