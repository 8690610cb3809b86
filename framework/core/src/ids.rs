//! Dense identifiers. Names are resolved when a run is assembled; while it goes on there are only these.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
            pub struct $name(pub $inner);
        )*
    };
}

ids! {
    /// An actor instance; every pool owns one contiguous range, so its place in the pool is `id - base`.
    ActorId(u32);
    /// An interned subject. A counted group is one family: base + member.
    SubjectId(u32);
    /// One of an actor's timers, `0..Actor::timers()`; at most one expiry is pending on each.
    TimerKey(u32);
    /// Chosen by the requester and returned with the outcome: its bookkeeping lives here.
    Token(u64);
    /// Chosen by the actor and returned with the finished work. An [`ExchangeId`] fits.
    WorkKey(u64);
    /// A slot and its generation (upper 32 bits) in the engine's table; a stale one is recognised, counted, ignored.
    ExchangeId(u64);
    /// Chosen by the actor for one of its flows, unique within the actor.
    FlowId(u32);
    /// A counter or value of a group beyond the standard set; see [`MetricId::SKIPPED`] for the reserved ones.
    MetricId(u16);
    /// A row of the run's recipe table: how a payload is made and how long it is.
    RecipeId(u16);
    /// A row of the run's media table: a clip that is encoded while the run goes on.
    MediaId(u16);
}

impl SubjectId {
    /// The subject of the family's `member`-th instance.
    #[inline]
    pub const fn member(self, member: u32) -> SubjectId {
        SubjectId(self.0 + member)
    }
}

impl MetricId {
    /// Slots of a schedule that were given up because the stream was late (`on_late = "skip"`).
    pub const SKIPPED: MetricId = MetricId(0);
    /// Payloads that a sender spoiled on purpose (`malformed`).
    pub const MALFORMED: MetricId = MetricId(1);
    /// Slots of a schedule that fell into a pause.
    pub const PAUSED: MetricId = MetricId(2);
    /// Slots of a schedule that were due between the last report of a lost node and its next incarnation.
    pub const AWAY: MetricId = MetricId(3);
    /// The first id that a group may name itself.
    pub const FIRST_OWN: u16 = 4;
}

impl ExchangeId {
    /// Composes slot and generation.
    #[inline]
    pub const fn new(slot: u32, generation: u32) -> Self {
        ExchangeId((generation as u64) << 32 | slot as u64)
    }

    /// The slot in the engine's table.
    #[inline]
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// The slot's generation.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
