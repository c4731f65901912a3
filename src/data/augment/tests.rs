//! Known images, and what must become of them.

use super::*;

const SQUARE: Shape = Shape { c: 1, h: 3, w: 3 };
const WIDE: Shape = Shape { c: 2, h: 2, w: 3 };

fn parse(text: &str) -> Augment {
    text.parse().unwrap()
}

/// The image 0, 1, 2 … after `draw`.
fn counted(draw: &Draw, shape: Shape) -> Vec<f32> {
    let from: Vec<u8> = (0..shape.len() as u8).collect();
    let mut to = vec![0.0; shape.len()];
    draw.apply(shape, &from, &mut to);
    to
}

fn still(view: View) -> Draw {
    Draw {
        view,
        window: None,
        colour: None,
    }
}

#[test]
fn flips_and_turns_move_pixels_and_change_none() {
    let mut view = View::of(WIDE);
    view.flip(WIDE);
    let flipped = [2.0, 1.0, 0.0, 5.0, 4.0, 3.0, 8.0, 7.0, 6.0, 11.0, 10.0, 9.0];
    assert_eq!(counted(&still(view), WIDE), flipped);
    view.flip_vertical(WIDE);
    let both = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0];
    assert_eq!(counted(&still(view), WIDE), both);
    let mut view = View::of(SQUARE);
    view.turn(SQUARE);
    let turned = [2.0, 5.0, 8.0, 1.0, 4.0, 7.0, 0.0, 3.0, 6.0];
    assert_eq!(counted(&still(view), SQUARE), turned);
    (0..3).for_each(|_| view.turn(SQUARE));
    assert_eq!(view, View::of(SQUARE), "four quarters are a whole");
}

#[test]
fn a_window_on_the_whole_changes_nothing_and_a_quarter_turn_is_exact() {
    let at = |shape, place, sides, angle| Draw {
        window: Some(Window::new(shape, place, sides, angle)),
        ..still(View::of(shape))
    };
    let whole = at(WIDE, (0.7, 0.2), (1.0, 1.0), 0.0);
    assert_eq!(counted(&whole, WIDE), counted(&still(View::of(WIDE)), WIDE));
    // Half of the rows and columns from the upper left corner: middles of pixels fall between four.
    let shape = Shape { c: 1, h: 4, w: 4 };
    let corner = counted(&at(shape, (0.0, 0.0), (0.5, 0.5), 0.0), shape);
    assert_eq!(corner[..4], [0.0, 0.25, 0.75, 1.25], "edges are held");
    assert_eq!(corner[4..8], [1.0, 1.25, 1.75, 2.25]);
    let last = counted(&at(shape, (1.0, 1.0), (0.5, 0.5), 0.0), shape);
    assert_eq!(last[15], 15.0);
    let quarter = at(SQUARE, (0.0, 0.0), (1.0, 1.0), std::f32::consts::FRAC_PI_2);
    let mut view = View::of(SQUARE);
    (0..3).for_each(|_| view.turn(SQUARE));
    let off = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-5;
    let (a, b) = (counted(&quarter, SQUARE), counted(&still(view), SQUARE));
    assert!(!a.iter().zip(&b).any(off), "{a:?} {b:?}");
}

#[test]
fn colours_change_by_their_factors() {
    let shape = Shape { c: 3, h: 1, w: 2 };
    let change = |brightness, contrast, saturation| {
        let mut values = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
        let colour = Colour {
            brightness,
            contrast,
            saturation,
        };
        colour.apply(shape, &mut values);
        values
    };
    let near = |got: [f32; 6], expected: [f32; 6]| {
        let far = got.iter().zip(expected).any(|(a, b)| (a - b).abs() > 1e-4);
        assert!(!far, "{got:?}, expected {expected:?}");
    };
    near(change(1.0, 1.0, 1.0), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    near(change(0.5, 1.0, 1.0), [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
    near(change(1.0, 0.0, 1.0), [35.0; 6]);
    let greys = [26.3, 36.3, 26.3, 36.3, 26.3, 36.3];
    near(change(1.0, 1.0, 0.0), greys);
}

#[test]
fn bytes_are_rounded_and_stay_within_bounds() {
    let mut changed = Vec::new();
    let mut augmenter = Augmenter::new(parse("colour=1"), 1, SQUARE);
    let from = [0, 10, 100, 150, 200, 250, 255, 255, 255];
    for sample in 0..200 {
        let mut to = [0; 9];
        augmenter.bytes(0, sample, &from, &mut to);
        assert!(
            to.is_sorted(),
            "{to:?}: a wrap around would break the order"
        );
        changed.extend(to);
    }
    assert!(changed.contains(&0) && changed.contains(&255));
}

#[test]
fn every_part_of_the_key_changes_the_draw_and_one_more_change_does_not() {
    let shape = Shape { c: 3, h: 9, w: 9 };
    let all = parse("flip,flip-vertical,rotate,tilt,crop,colour");
    let key = [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)];
    let draws = key.map(|(seed, epoch, sample)| all.draw(seed, epoch, sample, shape));
    for (i, a) in draws.iter().enumerate() {
        assert!(draws[..i].iter().all(|b| a != b), "{a:?}");
    }
    assert_eq!(draws[0], all.draw(1, 0, 0, shape));
    let fewer = parse("crop,tilt").draw(1, 0, 0, shape);
    assert_eq!(fewer.window, draws[0].window);
}

#[test]
fn draws_are_as_frequent_and_as_large_as_promised() {
    let shape = Shape { c: 1, h: 8, w: 8 };
    let augment = parse("flip,rotate,crop=0.25");
    let mut views = Vec::new();
    for sample in 0..8000 {
        let draw = augment.draw(1, 0, sample, shape);
        match views.iter_mut().find(|(view, _)| *view == draw.view) {
            Some((_, count)) => *count += 1,
            None => views.push((draw.view, 1)),
        }
        let image = counted(&draw, shape);
        assert!(image.iter().all(|value| (0.0..=63.0).contains(value)));
    }
    assert_eq!(views.len(), 8, "a square has eight views");
    let even = views.iter().all(|(_, count)| (850..1150).contains(count));
    assert!(even, "{views:?}");
}

#[test]
fn lists_are_read_and_written_and_nonsense_is_refused() {
    let all = parse("crop=0.5, flip,colour,tilt=10,rotate,flip-vertical");
    assert_eq!(
        all.to_string(),
        "flip,flip-vertical,rotate,tilt=10,crop=0.5,colour=0.2"
    );
    assert_eq!(parse(&all.to_string()), all);
    let cases = [
        ("", "there is no ``"),
        ("flip,", "there is no ``"),
        ("blur", "there is no `blur`"),
        ("flip,flip", "twice"),
        ("crop=0.3,crop=0.5", "twice"),
        ("flip=2", "takes no number"),
        ("crop=0", "above 0 and up to 1"),
        ("crop=1.5", "above 0 and up to 1"),
        ("tilt=nan", "above 0 and up to 180"),
        ("colour=x", "above 0 and up to 1"),
    ];
    for (text, problem) in cases {
        let error = text.parse::<Augment>().unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn shapes_that_a_change_makes_no_sense_for_are_refused() {
    let shape = |c, h, w| Shape { c, h, w };
    let refused = |text: &str, shape: Shape| parse(text).check(shape).is_err();
    assert!(refused("rotate", shape(3, 20, 30)));
    assert!(!refused("flip,flip-vertical,tilt,crop", shape(3, 20, 30)));
    assert!(refused("flip", shape(1, 1, 100)) && refused("crop", shape(4, 50, 1)));
    assert!(!refused("colour", shape(1, 1, 100)));
    assert!(!refused("rotate", shape(1, 28, 28)));
}
