//! The contract of `Codec`.

use std::{sync::Arc, thread};

use bytes::Bytes;
use rand::{SeedableRng, rngs::StdRng};

use super::{
    SEED, at_once, calm, check, check_name,
    codec_inputs::{Payload, damaged, large, payloads},
    ok,
};
use crate::{
    format::{Offset, Record},
    plugin::{Codec, FrameContext, Incarnation, Lacking, LogIdentity, PartitionId, Sample},
};

/// Stands in front of what a codec appends, and must not change.
const PREFIX: &[u8] = b"what was there";
/// What a buffer may grow by beyond what a codec was allowed to put there: it doubles, and starts small.
const SLACK: usize = 4_096;
/// Records of the sample that `maintain` is handed.
const SAMPLE_RECORDS: u32 = 1_000;

/// Checks a codec. `make` builds it, each time with the same configuration.
///
/// Point 5 is checked as far as one process can: another instance, on another thread, reads what one instance wrote.
/// A codec may draw random numbers in `encode` (a nonce) if it stores what decoding needs of them. Of point 4 the room
/// that `decode` takes in `out` is checked; what it allocates beside that is not seen here.
///
/// A codec that keeps files gets the same directory in every call of `make`, as a topic's codec does after a restart
/// (`PluginContext::in_dir` over a [`SimDisk`](crate::testkit::SimDisk)).
///
/// # Panics
/// With the point that failed and the input that failed it.
pub fn codec(make: impl Fn() -> Arc<dyn Codec>) {
    let log = LogIdentity::partition("orders", Incarnation::new(7), PartitionId(3));
    let mut rng = StdRng::seed_from_u64(SEED);
    let payloads = payloads(&mut rng);
    let (codec, other) = (make(), make());

    same(&codec, &other);
    for payload in &payloads {
        let context = context(&log, payload.bytes.len());
        let stored = encode(&*codec, &context, payload);
        round_trip(&*codec, &context, payload, &stored, "3");
        round_trip(&*other, &context, payload, &stored, "5");
        for damage in damaged(&stored, &mut rng) {
            bounded(&*codec, &context, &damage, &payload.name);
        }
        other_lengths(&*codec, &log, payload, &stored);
    }
    elsewhere(&*codec, &*other, &payloads);
    on_another_thread(&*codec, &*other, &log, &payloads);
    let large = large();
    let context_of_large = context(&log, large.bytes.len());
    let stored = encode(&*codec, &context_of_large, &large);
    round_trip(&*other, &context_of_large, &large, &stored, "3");
    drop((large, stored));
    same(&codec, &other);
    // What `maintain` prepared is known to codecs that are built later, and may not be to `other`.
    let (codec, other) = (maintained(codec, &make, &log, &payloads), make());
    same(&codec, &other);

    let payloads: Arc<[Payload]> = payloads.into();
    at_once("6", move || {
        for payload in payloads.iter() {
            let context = context(&log, payload.bytes.len());
            let stored = encode(&*codec, &context, payload);
            round_trip(&*other, &context, payload, &stored, "6");
        }
    });
}

/// Checks that frames outlive a change of the configuration: what `writer` encodes, `reader` decodes. Both are one codec,
/// built from two configurations.
///
/// The contract allows `decode` to need its configuration, as a codec with keys does. But once a topic's codec is
/// configured anew, what is built then reads all that was written before; and a log that has another codec by now reads
/// with what the name alone builds, see [`Registry::readable_codecs`]. A codec that puts what decoding needs into the
/// frame passes with any two of its configurations.
///
/// [`Registry::readable_codecs`]: crate::plugin::Registry::readable_codecs
///
/// # Panics
/// With the point that failed and the input that failed it.
pub fn codec_reads(writer: &Arc<dyn Codec>, reader: &Arc<dyn Codec>) {
    let log = LogIdentity::partition("orders", Incarnation::new(7), PartitionId(3));
    same(writer, reader);
    for payload in &payloads(&mut StdRng::seed_from_u64(SEED)) {
        let context = context(&log, payload.bytes.len());
        let stored = encode(&**writer, &context, payload);
        round_trip(&**reader, &context, payload, &stored, "5");
    }
}

/// Point 1: one number and one name, whenever one asks.
fn same(codec: &Arc<dyn Codec>, other: &Arc<dyn Codec>) {
    let number = codec.number();
    for again in [codec, other] {
        check("1", again.number() == number, || {
            format!("{codec:?} has two numbers, {number} and {}", again.number())
        });
        check_name("1", codec, codec.name(), again.name());
    }
}

/// Points 3 and 5 in other places: whatever the log, the offset and the number of records, decoding with an equal context
/// gives back what was encoded.
fn elsewhere(codec: &dyn Codec, other: &dyn Codec, payloads: &[Payload]) {
    let last = LogIdentity::partition("a", Incarnation::new(u64::MAX), PartitionId(u32::MAX));
    let alone = LogIdentity::named("a log that stands alone");
    let far = Offset::from(u32::MAX).saturating_add(1 << 40);
    for payload in payloads.iter().filter(|payload| payload.bytes.len() == 256) {
        let len = u32::try_from(payload.bytes.len()).expect("a payload that fits in a frame");
        for (log, base, count) in
            [(&last, Offset::ZERO, 1), (&alone, far, 1), (&last, far, 64), (&alone, 7.into(), 2)]
        {
            let context = FrameContext::new(log, base, count, len);
            let stored = encode(codec, &context, payload);
            round_trip(codec, &context, payload, &stored, "3");
            round_trip(other, &context, payload, &stored, "5");
        }
    }
}

/// Point 5: what one thread encodes another decodes.
fn on_another_thread(codec: &dyn Codec, other: &dyn Codec, log: &LogIdentity, payloads: &[Payload]) {
    for payload in payloads {
        let context = context(log, payload.bytes.len());
        let stored = encode(codec, &context, payload);
        thread::scope(|scope| {
            let decoding = scope.spawn(|| round_trip(other, &context, payload, &stored, "5"));
            decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}

/// Point 7: what was encoded before `maintain` decodes after it, here and in a codec that is built then; so does what is
/// encoded after it. Answers the one that was built then.
fn maintained(
    codec: Arc<dyn Codec>,
    make: impl Fn() -> Arc<dyn Codec>,
    log: &LogIdentity,
    payloads: &[Payload],
) -> Arc<dyn Codec> {
    let stored = |codec: &dyn Codec| -> Vec<Vec<u8>> {
        payloads.iter().map(|payload| encode(codec, &context(log, payload.bytes.len()), payload)).collect()
    };
    let before = stored(&*codec);
    let records: Vec<Record> = (0..SAMPLE_RECORDS).map(sample_record).collect();
    for records in [&records[..], &records[..1], &[]] {
        let input = || format!("maintain with {} records", records.len());
        _ = calm("7", input, || codec.wants_sample());
        // It may be refused: not every codec can do something with every sample.
        _ = calm("7", input, || codec.maintain(&Sample::new(records)));
    }
    let (after, later) = (stored(&*codec), make());
    for (payload, stored) in payloads.iter().zip(&before).chain(payloads.iter().zip(&after)) {
        let context = context(log, payload.bytes.len());
        round_trip(&*codec, &context, payload, stored, "7");
        round_trip(&*later, &context, payload, stored, "7");
    }
    later
}

fn sample_record(number: u32) -> Record {
    let payload = format!("{{\"order\":{number},\"state\":\"shipped\",\"customer\":\"c-{}\"}}", number % 17);
    Record {
        offset: Offset::from(number),
        committed_at_ms: 1_700_000_000_000 + i64::from(number),
        key: Bytes::from(format!("c-{}", number % 17)),
        payload: Bytes::from(payload),
    }
}

fn context(log: &LogIdentity, len: usize) -> FrameContext<'_> {
    let len = u32::try_from(len).expect("a payload that fits in a frame");
    FrameContext::new(log, Offset::from(42_u32), 1, len)
}

fn encode(codec: &dyn Codec, context: &FrameContext<'_>, payload: &Payload) -> Vec<u8> {
    let mut out = PREFIX.to_vec();
    let input = || format!("encode of {}", payload.name);
    ok(&input(), calm("2", input, || codec.encode(context, &payload.bytes, &mut out)));
    check("2", out.starts_with(PREFIX), || format!("{} changes what was in front", input()));
    check("2", out.len() > PREFIX.len(), || format!("{} appends nothing", input()));
    out.split_off(PREFIX.len())
}

fn round_trip(codec: &dyn Codec, context: &FrameContext<'_>, payload: &Payload, stored: &[u8], point: &str) {
    let mut out = PREFIX.to_vec();
    let input = || format!("encode and decode of {}", payload.name);
    let decoded = calm(point, input, || codec.decode(context, stored, &mut out));
    check(point, decoded.is_ok(), || format!("{}: {:?}", input(), decoded.as_ref().err()));
    let same = out.strip_prefix(PREFIX) == Some(&payload.bytes[..]);
    check(point, same, || format!("{} gives other bytes", input()));
    let input = || format!("decode_shared of {}", payload.name);
    let shared = calm(point, input, || codec.decode_shared(context, &Bytes::copy_from_slice(stored)));
    let same = shared.as_ref().is_ok_and(|raw| *raw == payload.bytes);
    check(point, same, || format!("{} gives something else than decode", input()));
}

/// Point 4, for bytes that are not what `encode` made.
fn bounded(codec: &dyn Codec, context: &FrameContext<'_>, damage: &Payload, of: &str) {
    let input = || format!("decode of {of}, {}, stated as {} bytes", damage.name, context.uncompressed_len);
    let mut out = PREFIX.to_vec();
    let decoded = calm("4", input, || codec.decode(context, &damage.bytes, &mut out));
    check("4", out.starts_with(PREFIX), || format!("{} changes what was in front", input()));
    let stated = context.uncompressed_len as usize;
    let appended = out.len() - PREFIX.len();
    check("4", decoded.is_err() || appended <= stated, || format!("{} appends {appended}", input()));
    let lacks = decoded.as_ref().is_err_and(|error| error.is::<Lacking>());
    check("2", !(lacks && damage.bytes.is_empty()), || {
        format!("{} answers `Lacking`: consumers would wait for what cannot be a frame", input())
    });
    let room = (stated + PREFIX.len()).saturating_mul(2) + SLACK;
    check("4", out.capacity() <= room, || format!("{} allocates {}", input(), out.capacity()));
}

/// Point 4, for a frame header that states another length than was encoded.
fn other_lengths(codec: &dyn Codec, log: &LogIdentity, payload: &Payload, stored: &[u8]) {
    let len = payload.bytes.len();
    for stated in [1, len / 2, len - 1, len + 1, len * 2] {
        if stated != len && stated > 0 {
            let damage = Payload { name: "another length stated".to_owned(), bytes: stored.to_vec() };
            bounded(codec, &context(log, stated), &damage, &payload.name);
        }
    }
}
