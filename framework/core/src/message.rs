//! Typed messages: the value itself inside a process, a MessagePack envelope between processes.
//!
//! On the wire: a map `{v, kind, body}` with named fields; the bus adds `run`, `from`, `seq` and `t_ns` beside them
//! (see [`Header`]). Unknown keys are ignored.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use rmp_serde::decode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// Levels that a message may be nested, containers in containers; the deepest of ours has eight.
pub const DEPTH_MAX: usize = 64;

/// Something that actors say to each other.
pub trait Message: Debug + Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Names the message on the wire.
    const KIND: &'static str;
    /// Raised when its meaning changes.
    const VERSION: u16 = 1;
}

/// The typed value or its wire form; [`Body::get`] hides which.
#[derive(Clone, Debug)]
pub struct Body(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Typed(Arc<dyn Typed>),
    Wire(Bytes),
}

trait Typed: Any + Send + Sync + Debug {
    fn encode(&self, header: &Header<'_>) -> Vec<u8>;
    fn kind(&self) -> &'static str;
    fn any(&self) -> &dyn Any;
}

/// Who published a message, and which of the publisher's messages it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header<'a> {
    /// The run's name.
    pub run: &'a str,
    /// The publisher, `node.actor`.
    pub from: &'a str,
    /// The publisher's own count; a gap tells of a loss.
    pub seq: u64,
    /// The publisher's clock, ns since the run was created.
    pub t_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct Envelope<'a, B> {
    v: u16,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    run: Cow<'a, str>,
    #[serde(borrow, default)]
    from: Cow<'a, str>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    t_ns: u64,
    body: B,
}

impl<M: Message> Typed for M {
    fn encode(&self, header: &Header<'_>) -> Vec<u8> {
        let envelope = Envelope {
            v: M::VERSION,
            kind: Cow::Borrowed(M::KIND),
            run: Cow::Borrowed(header.run),
            from: Cow::Borrowed(header.from),
            seq: header.seq,
            t_ns: header.t_ns,
            body: self,
        };
        rmp_serde::to_vec_named(&envelope).expect("a message is plain data")
    }

    fn kind(&self) -> &'static str {
        M::KIND
    }

    fn any(&self) -> &dyn Any {
        self
    }
}

/// What an envelope says of itself, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The message's version.
    pub v: u16,
    /// Which message it is.
    pub kind: String,
    /// The run's name.
    pub run: String,
    /// The publisher, `node.actor`.
    pub from: String,
    /// The publisher's own count on this subject, from 1; 0 if it does not count.
    pub seq: u64,
}

/// Why a body is not the message that was asked for.
#[derive(Debug, Error)]
pub enum BodyError {
    /// Another message.
    #[error("not a {wanted} message")]
    Kind {
        /// What was asked for.
        wanted: &'static str,
    },
    /// The right message in a version that this build does not know.
    #[error("version {got} is not understood")]
    Version {
        /// The version that came.
        got: u16,
    },
    /// Bytes that are no such message.
    #[error("cannot be decoded")]
    Decode(#[from] decode::Error),
    /// A message, and then more.
    #[error("bytes follow the message")]
    Trailing,
}

impl Body {
    /// A typed body.
    pub fn new<M: Message>(message: M) -> Self {
        Body(Repr::Typed(Arc::new(message)))
    }

    /// A body as it came over a wire.
    pub fn from_wire(bytes: Bytes) -> Self {
        Body(Repr::Wire(bytes))
    }

    /// The wire form; a body that came over a wire keeps the header it came with.
    pub fn to_wire(&self, header: &Header<'_>) -> Bytes {
        match &self.0 {
            Repr::Typed(message) => message.encode(header).into(),
            Repr::Wire(bytes) => bytes.clone(),
        }
    }

    /// Whether this is a typed `kind`, without decoding; `None` if it is in wire form.
    pub fn typed_kind(&self) -> Option<&'static str> {
        match &self.0 {
            Repr::Typed(message) => Some(message.as_ref().kind()),
            Repr::Wire(_) => None,
        }
    }

    /// What the envelope of a body in wire form says; `None` if the body is typed.
    ///
    /// # Errors
    /// [`BodyError::Decode`] if the bytes are no envelope.
    pub fn sealed(&self) -> Result<Option<Sealed>, BodyError> {
        let Repr::Wire(bytes) = &self.0 else { return Ok(None) };
        let envelope = open::<IgnoredAny>(bytes)?;
        let (kind, run, from) = (envelope.kind.into_owned(), envelope.run.into_owned(), envelope.from.into_owned());
        Ok(Some(Sealed { v: envelope.v, kind, run, from, seq: envelope.seq }))
    }

    /// The message, borrowed if it is typed here, decoded if it came over a wire.
    ///
    /// # Errors
    /// [`BodyError`] if it is another message, another version, or no message at all.
    pub fn get<M: Message>(&self) -> Result<Cow<'_, M>, BodyError> {
        match &self.0 {
            Repr::Typed(message) => {
                message.as_ref().any().downcast_ref().map(Cow::Borrowed).ok_or(BodyError::Kind { wanted: M::KIND })
            }
            Repr::Wire(bytes) => read::<M>(bytes).map(Cow::Owned),
        }
    }
}

fn read<M: Message>(bytes: &Bytes) -> Result<M, BodyError> {
    let known = |kind: &str, got: u16| -> Result<(), BodyError> {
        if kind != M::KIND {
            return Err(BodyError::Kind { wanted: M::KIND });
        }
        if got != M::VERSION { Err(BodyError::Version { got }) } else { Ok(()) }
    };
    match open::<M>(bytes) {
        Ok(envelope) => known(&envelope.kind, envelope.v).map(|()| envelope.body),
        Err(why) => {
            // a foreign body fails to decode as M: tell that from a broken one
            let outer = open::<IgnoredAny>(bytes)?;
            known(&outer.kind, outer.v)?;
            Err(why)
        }
    }
}

/// An envelope that is all of `bytes`. What it allocates is bounded by their number, whatever lengths they claim.
fn open<'a, B: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Envelope<'a, B>, BodyError> {
    let mut from = rmp_serde::Deserializer::from_read_ref(bytes);
    from.set_max_depth(DEPTH_MAX);
    let Named(envelope) = Named::<Envelope<'a, Named<B>>>::deserialize(&mut from)?;
    let Named(body) = envelope.body;
    let envelope = Envelope {
        v: envelope.v,
        kind: envelope.kind,
        run: envelope.run,
        from: envelope.from,
        seq: envelope.seq,
        t_ns: envelope.t_ns,
        body,
    };
    match <()>::deserialize(&mut from) {
        Err(decode::Error::InvalidMarkerRead(_)) => Ok(envelope),
        _ => Err(BodyError::Trailing),
    }
}

/// What is a map on the wire. By themselves structs are read from lists, and from bytes, too.
struct Named<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Named<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Named)
            }
        }

        from.deserialize_map(Map(PhantomData))
    }
}

/// What a test means by equal: the same bytes on the wire.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        self.to_wire(&Header::default()) == other.to_wire(&Header::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Ping {
        n: u32,
    }
    impl Message for Ping {
        const KIND: &'static str = "ping";
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Pong {
        text: String,
    }
    impl Message for Pong {
        const KIND: &'static str = "pong";
    }

    #[test]
    fn typed_and_wire_read_the_same() {
        let typed = Body::new(Ping { n: 7 });
        let wire = Body::from_wire(typed.to_wire(&Header { run: "r", from: "a.b", seq: 1, t_ns: 2 }));
        assert_eq!(typed.get::<Ping>().expect("typed").n, 7);
        assert_eq!(wire.get::<Ping>().expect("wire").n, 7);
        let sealed = wire.sealed().expect("an envelope").expect("in wire form");
        assert_eq!((sealed.kind.as_str(), sealed.from.as_str(), sealed.seq), ("ping", "a.b", 1));
        assert_eq!(typed.sealed().expect("nothing to decode"), None);
        assert!(matches!(wire.get::<Pong>(), Err(BodyError::Kind { wanted: "pong" })));
        assert!(matches!(typed.get::<Pong>(), Err(BodyError::Kind { wanted: "pong" })));
        let broken = Body::from_wire(Bytes::from_static(b"\xc1\xff"));
        assert!(matches!(broken.get::<Ping>(), Err(BodyError::Decode(_))));
        assert!(matches!(broken.sealed(), Err(BodyError::Decode(_))));
    }
}
