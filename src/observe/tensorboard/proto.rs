//! The part of TensorBoard's messages that is written here, by their published field numbers.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "What", tags = "3, 4, 5")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    /// A `GraphDef`, encoded.
    #[prost(bytes, tag = "4")]
    Graph(Vec<u8>),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<Metadata>,
    #[prost(oneof = "Content", tags = "2, 5, 8")]
    pub content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Content {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub plugin: Option<Plugin>,
    /// 2 for tensors.
    #[prost(int32, tag = "4")]
    pub class: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Plugin {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    /// Right ends of the buckets, and how many values are in each.
    #[prost(double, repeated, tag = "6")]
    pub limits: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub counts: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    /// 1 for floats, 7 for strings.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<Shape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub strings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub dims: Vec<Dim>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dim {
    #[prost(int64, tag = "1")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<Node>,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<Versions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Versions {
    #[prost(int32, tag = "1")]
    pub producer: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(string, repeated, tag = "3")]
    pub inputs: Vec<String>,
    #[prost(btree_map = "string, message", tag = "5")]
    pub attributes: BTreeMap<String, Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(oneof = "Setting", tags = "1, 2")]
    pub setting: Option<Setting>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Setting {
    #[prost(message, tag = "1")]
    List(Shapes),
    #[prost(bytes, tag = "2")]
    Words(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Shapes {
    #[prost(message, repeated, tag = "7")]
    pub shapes: Vec<Shape>,
}

/// What the plugin for hyper-parameters reads.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HParams {
    #[prost(int32, tag = "1")]
    pub version: i32,
    #[prost(oneof = "Session", tags = "2, 3, 4")]
    pub session: Option<Session>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Session {
    #[prost(message, tag = "2")]
    Experiment(Experiment),
    #[prost(message, tag = "3")]
    Start(Start),
    #[prost(message, tag = "4")]
    End(End),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Experiment {
    #[prost(message, repeated, tag = "4")]
    pub parameters: Vec<Parameter>,
    #[prost(message, repeated, tag = "5")]
    pub metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Parameter {
    #[prost(string, tag = "1")]
    pub name: String,
    /// 1 for strings, 2 for truth values, 3 for numbers.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Start {
    #[prost(btree_map = "string, message", tag = "1")]
    pub parameters: BTreeMap<String, Given>,
    #[prost(double, tag = "5")]
    pub time: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct End {
    /// 1 for success.
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(double, tag = "2")]
    pub time: f64,
}

/// A value of no declared type.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Given {
    #[prost(oneof = "super::Setting", tags = "2, 3, 4")]
    pub value: Option<super::Setting>,
}
