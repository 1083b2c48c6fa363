//! Frames as a read meets them, one after another: their CRC is checked here, once, in the bytes that are then decoded.
//!
//! Small frames that follow each other are decoded into one buffer and handed out as one, so that a log of single records
//! is not read record by record. Nothing here reads more of a file for that than the frame that was asked for needs.

use std::io;

use bytes::{Buf, Bytes};

use super::{DecodedFrame, Found, ReadContext, ReadWindow, scan::Place};
use crate::format::{FrameHeader, HEADER_LEN, Offset};

/// Frames above this many bytes stand alone.
const SMALL: usize = 8 << 10;
/// Frames are joined up to about this many bytes.
const JOINED: usize = 64 << 10;

/// What was found at a place: where each frame of it lies, and what comes behind.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) found: Found,
    pub(super) frames: Vec<(Offset, Place)>,
    pub(super) after: Place,
}

/// The header of the frame at `pos` and what is stored behind it, if its CRC holds and it lies within `len`.
pub(super) fn frame_at(
    window: &mut ReadWindow,
    pos: u64,
    len: u64,
) -> io::Result<Option<(FrameHeader, Bytes)>> {
    let header = window.get(len, pos, HEADER_LEN)?;
    let header = header.first_chunk().and_then(|bytes| FrameHeader::decode(bytes).ok());
    let Some(header) = header.filter(|header| pos + header.frame_len() <= len) else { return Ok(None) };
    let frame_len = usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
    let stored = window.get(len, pos, frame_len)?;
    window.expect(frame_len);
    Ok(checked(header, stored))
}

/// The same, if all of it was read already.
fn frame_here(window: &ReadWindow, pos: u64, len: u64) -> Option<(FrameHeader, Bytes)> {
    let header = FrameHeader::decode(window.here(pos, HEADER_LEN)?.first_chunk()?).ok()?;
    if pos + header.frame_len() > len {
        return None;
    }
    checked(header, window.here(pos, usize::try_from(header.frame_len()).ok()?)?)
}

fn checked(header: FrameHeader, mut frame: Bytes) -> Option<(FrameHeader, Bytes)> {
    frame.advance(HEADER_LEN.min(frame.len()));
    (header.crc_with(&frame) == header.crc).then_some((header, frame))
}

/// Undoes the codec of the frame at `pos`, which `frame_at` has found there, and of small ones that follow it as
/// `window` allows; none reaches past `limit`.
pub(super) fn decode_run(
    window: &ReadWindow,
    (pos, len): (u64, u64),
    (header, stored): (FrameHeader, Bytes),
    limit: Offset,
    context: ReadContext<'_>,
) -> Run {
    let ReadContext { codecs, log, .. } = context;
    let mut after = Place { pos: pos + header.frame_len(), expected: header.end() };
    let mut frames = vec![(header.base, after)];
    let first = match DecodedFrame::decode_checked(&header, stored, window.held(), codecs, log) {
        Ok(frame) => frame,
        Err(why) => return Run { found: Found::Lost(header.base..header.end(), why), frames, after },
    };
    let Some(joining) = window.joining.filter(|_| first.len() <= SMALL) else {
        return Run { found: Found::Frame(first), frames, after };
    };
    let limit = limit.min(joining.below);
    let mut joined = first.begin(JOINED);
    while joined.len() < JOINED && joined.count() < joining.records {
        let Some((header, stored)) = frame_here(window, after.pos, len) else { break };
        let fits = header.base == after.expected && header.end() <= limit;
        if !fits || header.uncompressed_len as usize > SMALL {
            break;
        }
        // One that cannot be decoded is met by whoever asks for it.
        if joined.push(&header, &stored, codecs, log).is_err() {
            break;
        }
        after = Place { pos: after.pos + header.frame_len(), expected: header.end() };
        frames.push((header.base, after));
    }
    Run { found: Found::Frame(joined.finish()), frames, after }
}
