//! The device itself: memory, copies, streams.

use phalanx::backend::cuda::{Buffer, Device, Event, Pinned, Stream, activation, scale, update};

use super::{Check, Place, random};

pub const CHECKS: [Check; 6] = [
    ("values_come_back_as_they_went", values_come_back),
    ("parts_of_buffers_are_those_parts", parts),
    ("pinned_memory_is_read_after_the_copy", pinned),
    ("a_stream_waits_for_another_by_an_event", events),
    ("nothing_is_left_allocated", leaks),
    ("each_device_has_its_own_memory", devices),
];

fn values_come_back(place: &Place) {
    for len in [0, 1, 5, 1000] {
        let values = random(len, 1);
        let buffer = place.put(&values);
        assert_eq!(place.get(buffer.view()), values);
        let mut copy = place.room(len);
        place.stream.copy(buffer.view(), copy.view_mut()).unwrap();
        assert_eq!(place.get(copy.view()), values);
        place.stream.clear(copy.view_mut()).unwrap();
        assert_eq!(place.get(copy.view()), vec![0.0; len]);
    }
}

fn parts(place: &Place) {
    let mut buffer = place.put(&[1.0, -2.0, -3.0, -4.0, 5.0]);
    activation::relu(&place.stream, buffer.part_mut(1..3)).unwrap();
    assert_eq!(place.get(buffer.view()), [1.0, 0.0, 0.0, -4.0, 5.0]);
    let (low, high) = buffer.view_mut().split_at(4);
    assert_eq!((low.len(), high.len()), (4, 1));
    assert_eq!(place.get(low.shared().part(3..4)), [-4.0]);
    assert_eq!(place.get(high.shared()), [5.0]);
}

fn pinned(place: &Place) {
    let stream = &place.stream;
    let mut host = Pinned::<f32>::new(&place.device, 1000).unwrap();
    host.values_mut().unwrap().copy_from_slice(&random(1000, 2));
    let expected: Vec<f32> = random(1000, 2).iter().map(|v| v.max(0.0)).collect();
    let mut buffer = Buffer::new(&place.device, 1000).unwrap();
    stream.send(&host, 0..1000, buffer.view_mut()).unwrap();
    activation::relu(stream, buffer.view_mut()).unwrap();
    let (first, second) = buffer.view().split_at(300);
    stream.receive(first, &mut host, 700..1000).unwrap();
    stream.receive(second, &mut host, 0..700).unwrap();
    let values = host.values().unwrap();
    assert_eq!((&values[700..], &values[..700]), expected.split_at(300));
}

/// Each half of the work in a stream of its own; the second needs what the first made.
fn events(place: &Place) {
    let other = Stream::new(&place.device).unwrap();
    let event = Event::new(&place.device).unwrap();
    let pixels = other.buffer(&[0u8, 100, 200]).unwrap();
    let mut inputs = place.room(3);
    let mut sums = place.put(&[1.0, 1.0, 1.0]);
    scale::bytes(&other, pixels.view(), 0.5, -1.0, inputs.view_mut()).unwrap();
    other.record(&event).unwrap();
    place.stream.wait_for(&event).unwrap();
    update::add(&place.stream, inputs.view(), sums.view_mut()).unwrap();
    assert_eq!(place.get(sums.view()), [0.0, 50.0, 100.0]);
}

fn leaks(place: &Place) {
    assert_eq!(place.device.allocated(), (0, 0));
    let buffer = place.put(&[1.0; 100]);
    let empty = place.put(&[]);
    assert_eq!(place.device.allocated(), (400, 1));
    drop((buffer, empty));
    assert_eq!(place.device.allocated(), (0, 0));
}

/// Of all devices there are.
fn devices(place: &Place) {
    let count = Device::count().unwrap();
    assert!(count >= 1, "this place is on one");
    assert!(Device::open(count).is_err(), "there are only {count}");
    for index in 1..count {
        let device = Device::open(index).unwrap();
        assert_eq!(device.facts().index, index);
        let (free, before) = (device.free().unwrap(), place.device.free().unwrap());
        let stream = Stream::new(&device).unwrap();
        let mut buffer = stream.buffer(&[-1.0f32; 1000]).unwrap();
        assert_eq!(device.free().unwrap(), free - 4000);
        assert_eq!(place.device.free().unwrap(), before);
        activation::relu(&stream, buffer.view_mut()).unwrap();
        assert_eq!(stream.values(buffer.view()).unwrap(), [0.0; 1000]);
        let foreign = Event::new(&place.device).unwrap();
        assert!(stream.record(&foreign).is_err(), "of another device");
    }
}
