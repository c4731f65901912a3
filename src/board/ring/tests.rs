//! Nodes in one process, each with a socket on the loopback.

use std::net::Ipv4Addr;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);
/// Long after the start.
const LATE: Duration = Duration::from_secs(1000);
const RUN: u64 = 77;

/// Rings of `nodes` nodes with two ranks each; the first address of each leads nowhere.
fn rings(nodes: usize) -> Vec<Ring> {
    let nowhere = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = nowhere.local_addr().unwrap();
    let sockets: Vec<UdpSocket> = (0..nodes)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let member = |(node, socket): (usize, &UdpSocket)| {
        socket.set_nonblocking(true).unwrap();
        Member {
            ranks: vec![2 * node, 2 * node + 1],
            addresses: vec![nowhere, socket.local_addr().unwrap()],
        }
    };
    let members: Vec<Member> = sockets.iter().enumerate().map(member).collect();
    let ring = |(node, socket)| Ring::new(socket, RUN, node, &members);
    sockets.into_iter().enumerate().map(ring).collect()
}

fn rows(node: usize, phase: Phase) -> Vec<Seen> {
    let seen = |rank| Seen {
        rank,
        phase,
        step: 5,
        still: Duration::from_secs(1),
        silent: Duration::ZERO,
    };
    vec![seen(2 * node), seen(2 * node + 1)]
}

/// Lets the nodes for which `speaks` holds send, and all listen, at each half second up to `until`.
fn talk(rings: &mut [Ring], seconds: std::ops::Range<u64>, speaks: impl Fn(usize) -> bool) {
    for half in 2 * seconds.start..2 * seconds.end {
        let now = Duration::from_millis(500 * half);
        for node in (0..rings.len()).filter(|&node| speaks(node)) {
            rings[node].send(now, &rows(node, Phase::Exchange), true);
        }
        // The loopback delivers at once; twice, so that answers arrive too.
        for _ in 0..2 {
            rings.iter_mut().for_each(|ring| ring.receive(now));
        }
    }
}

#[test]
fn a_silent_node_is_named_by_the_next_one_first() {
    let mut rings = rings(4);
    talk(&mut rings, 0..5, |_| true);
    let at = |seconds| Duration::from_secs(seconds);
    talk(&mut rings, 5..15, |node| node != 2);
    // Last heard at 4.5 s.
    assert_eq!(rings[3].trouble(at(15), LIMIT, LIMIT), None);
    talk(&mut rings, 15..17, |node| node != 2);
    let silent = Some(Trouble::Silent(vec![2]));
    assert_eq!(rings[3].trouble(at(16), LIMIT, LIMIT), silent);
    assert_eq!(rings[0].trouble(at(16), LIMIT, LIMIT), None);
    assert_eq!(rings[0].trouble(at(17), LIMIT, LIMIT), silent);
    assert_eq!(
        rings[1].trouble(at(17), LIMIT, LIMIT),
        None,
        "it does not listen to it"
    );
    rings[3].tell();
    rings[0].receive(at(17));
    assert_eq!(rings[0].trouble(at(17), LIMIT, LIMIT), None, "it was told");
    talk(&mut rings, 17..28, |node| node != 2);
    assert_eq!(rings[0].trouble(at(28), LIMIT, LIMIT), silent, "in vain");
    let known = rings[3].known(at(16));
    let (node, ago, rows) = &known[0];
    assert_eq!((*node, *ago), (2, Some(Duration::from_millis(11_500))));
    assert_eq!((rows[0].rank, rows[0].step, rows[1].rank), (4, 5, 5));
    assert_eq!(rows[0].still, Duration::from_millis(12_500));
}

#[test]
fn all_nodes_waiting_is_told_by_the_first_and_not_before_all_do() {
    let mut rings = rings(3);
    talk(&mut rings, 0..4, |_| true);
    let now = Duration::from_secs(4);
    assert_eq!(rings[0].trouble(now, LIMIT, LIMIT), Some(Trouble::AllWait));
    assert_eq!(rings[1].trouble(now, LIMIT, LIMIT), None);
    // One node goes on: the next ones hear of it.
    rings[1].send(now, &rows(1, Phase::Compute), false);
    rings.iter_mut().for_each(|ring| ring.receive(now));
    rings[2].send(now, &rows(2, Phase::Wait), true);
    rings[0].receive(now);
    assert_eq!(rings[0].trouble(now, LIMIT, LIMIT), None);
}

#[test]
fn who_never_heard_anything_says_so_instead_of_guessing() {
    let rings = rings(3);
    assert_eq!(
        rings[0].trouble(LATE, LIMIT, LIMIT),
        None,
        "others may know more"
    );
    let later = LIMIT + Duration::from_secs(1);
    assert_eq!(rings[0].trouble(LATE, later, LIMIT), Some(Trouble::Deaf));
    assert_eq!(
        rings[1].trouble(LATE, later, LIMIT),
        None,
        "the lower first"
    );
    let later = LIMIT + Duration::from_secs(2);
    assert_eq!(rings[1].trouble(LATE, later, LIMIT), Some(Trouble::Deaf));
}

#[test]
fn a_node_that_is_done_may_be_silent() {
    let mut rings = rings(2);
    let zero = Duration::ZERO;
    rings[1].send(zero, &rows(1, Phase::Done), false);
    rings[0].receive(zero);
    assert_eq!(rings[0].trouble(LIMIT * 3, LIMIT, LIMIT), None);
}

#[test]
fn the_address_that_was_answered_is_the_one_used() {
    let mut rings = rings(2);
    talk(&mut rings, 0..1, |_| true);
    let after = &rings[0].after[0];
    assert_eq!(after.answered.map(|(address, _)| address), Some(1));
    // One datagram, not one for each address.
    let now = Duration::from_secs(2);
    rings[0].send(now, &rows(0, Phase::Wait), false);
    let mut buffer = [0; 4096];
    let (len, _) = rings[1].socket.recv_from(&mut buffer).unwrap();
    let sent = parse(&buffer[..len]).unwrap();
    assert!(matches!(sent.body, Body::Rows { address: 1, .. }));
    assert!(rings[1].socket.recv_from(&mut buffer).is_err());
    // What is not answered any more is looked for on all again.
    rings[0].send(now + 2 * FORGET, &rows(0, Phase::Wait), false);
    assert!(rings[1].socket.recv_from(&mut buffer).is_ok());
}

#[test]
fn garbage_and_strangers_are_not_believed() {
    let mut rings = rings(3);
    let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let good =
        r#"{"run":77,"node":2,"body":{"Rows":{"address":1,"waiting":0,"rows":[[4,2,9,10,20]]}}}"#;
    let bad = [
        String::new(),
        "\0\u{1}\u{2}".into(),
        "[".repeat(60_000),
        good[..good.len() - 1].into(),
        good.replace("77", "78"),
        good.replace("77", "-77"),
        good.replace("\"node\":2", "\"node\":0"),
        good.replace("\"node\":2", "\"node\":99999999999"),
        good.replace("[4,2,", "[6,2,"),
        good.replace("[4,2,", "[4,10,"),
        good.replace("[4,2,9,10,20]", ""),
        good.replace("[4,2,9,10,20]", "[4,2,9,10,20],[5,2,9,10,20],[5,2,9,10,20]"),
        good.replace("20]", "99999999999]"),
        r#"{"run":77,"node":1,"body":{"Heard":{"address":2}}}"#.into(),
        r#"{"run":77,"node":0,"body":"Told"}"#.into(),
        r#"{"run":77,"node":9,"body":{"Heard":{"address":0}}}"#.into(),
    ];
    for text in &bad {
        rings[0].take(text.as_bytes(), from, LIMIT);
        let heard = rings[0].before.iter().any(|before| before.heard.is_some());
        let answered = rings[0].after.iter().any(|after| after.answered.is_some());
        let told = rings[0].told.is_some();
        assert!(!heard && !answered && !told, "{text}");
    }
    rings[0].take(good.as_bytes(), from, LIMIT);
    assert_eq!(rings[0].before[0].heard, Some(LIMIT));
    assert_eq!(rings[0].before[0].rows[0].step, 9);
    // A count beyond all nodes is as good as all.
    let many = good.replace("\"waiting\":0", "\"waiting\":18446744073709551615");
    rings[0].take(many.as_bytes(), from, LIMIT);
    assert_eq!(rings[0].waiting(LIMIT, true), 3);
}
