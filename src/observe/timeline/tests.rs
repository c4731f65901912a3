//! What is noted, what is dropped, and what the file says.

use std::time::Duration;

use super::*;
use crate::comm::{Comm, run_nodes};

#[test]
fn the_first_and_the_last_spans_are_kept_and_the_rest_is_counted() {
    let mut log = Log::new(10);
    let at = |i: u64| log.begun + Duration::from_micros(i);
    let times: Vec<Instant> = (0..=36).map(at).collect();
    for i in 0..36 {
        log.step = i as u64;
        log.add(Kind::Load, 0, times[i], times[i + 1]);
    }
    let steps: Vec<u64> = log.spans().map(|span| span.step).collect();
    let expected: Vec<u64> = (0..10).chain(26..36).collect();
    assert_eq!((steps, log.dropped), (expected, 16));
}

#[test]
fn nothing_is_noted_where_nothing_was_started() {
    assert!(!is_on() && take().is_none());
    span(Kind::Load, 0, Instant::now());
    assert!(take().is_none());
}

#[test]
fn a_trace_of_several_ranks_is_json_with_all_of_them_on_one_clock() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("trace.json");
    run_nodes(&[0, 0, 1, 1], |comm: &dyn Comm| {
        let offset = Offset::measure(comm);
        start(comm.size());
        step(7);
        comm.barrier();
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        span(Kind::Forward, 0, begin);
        span(Kind::Compute, 0, begin);
        comm.barrier();
        let log = take().unwrap();
        let end = Offset::measure(comm);
        let to = (comm.rank() == 0).then_some(path.as_path());
        let layers = ["con\"v".to_owned()];
        let written = write(comm, &log, (&offset, &end), &layers, to).unwrap();
        assert_eq!((written.spans, written.dropped), (8, 0));
    });
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(spans.len(), 8);
    for pair in spans.chunks(2) {
        // What holds the other stands first.
        assert_eq!([&pair[0]["cat"], &pair[1]["cat"]], ["compute", "layer"]);
        assert_eq!(pair[1]["name"], "forward 0 con\"v");
        assert_eq!(pair[0]["args"]["step"], 7);
        assert!(pair[0]["dur"].as_f64().unwrap() >= 2000.0);
    }
    // Threads of one process: all clocks are the same, and ranks left the barrier together.
    let begins = spans.iter().map(|span| span["ts"].as_f64().unwrap());
    let latest = begins.fold(0.0, f64::max);
    assert!(latest < 1e6, "{latest} µs apart");
    assert_eq!(trace["otherData"]["dropped"], 0);
}
