//! TensorFlow's examples: features by name, in record files.

mod import;
#[cfg(test)]
mod tests;

pub use import::{Import, import};

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// One sample.
#[derive(Clone, PartialEq, Message)]
pub struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, Message)]
struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

/// What a sample has under a name.
#[derive(Clone, PartialEq, Message)]
pub struct Feature {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Integers(IntegerList),
}

#[derive(Clone, PartialEq, Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
struct IntegerList {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

impl Feature {
    /// Some bytes.
    pub fn bytes(value: &[u8]) -> Self {
        let value = vec![value.to_vec()];
        Self {
            kind: Some(Kind::Bytes(BytesList { value })),
        }
    }

    /// A number.
    pub fn integer(value: i64) -> Self {
        let value = vec![value];
        Self {
            kind: Some(Kind::Integers(IntegerList { value })),
        }
    }

    /// The bytes, if it is one piece of them.
    fn one_of_bytes(&self) -> Option<&[u8]> {
        match &self.kind {
            Some(Kind::Bytes(list)) if list.value.len() == 1 => Some(&list.value[0]),
            _ => None,
        }
    }

    /// The number, if it is one.
    fn one_integer(&self) -> Option<i64> {
        match &self.kind {
            Some(Kind::Integers(list)) if list.value.len() == 1 => Some(list.value[0]),
            _ => None,
        }
    }

    /// What it is, in words.
    fn words(&self) -> String {
        match &self.kind {
            None => "nothing".into(),
            Some(Kind::Bytes(list)) => format!("{} pieces of bytes", list.value.len()),
            Some(Kind::Floats(list)) => format!("{} floats", list.value.len()),
            Some(Kind::Integers(list)) => format!("{} integers", list.value.len()),
        }
    }
}

impl Example {
    /// A sample of these features.
    pub fn of(features: impl IntoIterator<Item = (&'static str, Feature)>) -> Self {
        let named = |(name, feature): (&str, Feature)| (name.to_owned(), feature);
        Self {
            features: Some(Features {
                feature: features.into_iter().map(named).collect(),
            }),
        }
    }

    /// As it is in a record.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// From a record, or why it is none.
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        Self::decode(bytes).map_err(|error| format!("is no example: {error}"))
    }

    /// The feature of that name, or which there are.
    fn feature(&self, name: &str) -> Result<&Feature, String> {
        let features = self.features.as_ref().map(|features| &features.feature);
        let found = features.and_then(|features| features.get(name));
        found.ok_or_else(|| {
            let names: Vec<&str> = (features.iter())
                .flat_map(|features| features.keys())
                .map(String::as_str)
                .collect();
            format!("has no feature `{name}` (it has: {})", names.join(", "))
        })
    }
}
