//! What is out of scope, and what to use instead. Nothing here is code.
//!
//! | not here | why | instead |
//! |---|---|---|
//! | channel models (TR 38.901), fading, mobility, handover | a link is delay, jitter, rate, loss and a queue; radio needs positions, antennas and a spectrum | a radio simulator, or a laboratory's network between real nodes |
//! | 5G protocol stacks (RLC, MAC, HARQ, RRC, NAS) | ours is the application's view | a core and RAN under test, with senders on the UE side |
//! | counters inside a network (TS 28.552), slices (TS 28.554) | they are the network's own; see [`super::names`] | import them beside a bundle by time |
//! | 4G core KPIs (ETSI TS 132 455) | accessibility and retainability of bearers | the operator's own |
//! | frame-exact hardware generation, RFC 2544 at line rate, RFC 8219 | needs timestamps in the card and minimal frames at full rate | a hardware generator or a kernel-bypass one; ours states its own lag |
//! | IPER of Y.1540 | a broken packet is dropped below the application | capture at the interface |
//! | spurious packets of Y.1540 | what nobody sent is not addressed to a run; duplicates and reordering are counted | capture at the interface |
//! | speech and video quality (P.863, P.1203) | needs the decoded signal | feed the delays and losses of a bundle to such a model |
//! | TCP throughput testing (RFC 6349) | bulk transfer, path MTU and buffer delay are the kernel's | iperf3 beside a run |
//! | energy, cost | no meter is read | join a meter's series by second |
