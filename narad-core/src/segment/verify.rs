//! Reads frames back after they were written, through bounded buffers that are used again.

use std::io;

use parking_lot::Mutex;

use crate::{
    disk::{File, FileExt},
    format::{FRAME_MAGIC, FrameHeader, HEADER_LEN, crc32c_append, frame_crc},
};

const CHUNK: usize = 256 << 10;
/// Buffers kept between commits, whatever the number of logs.
const KEPT: usize = 4;

static BUFFERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Whether the frame of that header is at `pos`: its header byte for byte, and a CRC that holds.
pub(crate) fn is_written(file: &dyn File, pos: u64, header: &FrameHeader) -> io::Result<bool> {
    let mut buffer = BUFFERS.lock().pop().unwrap_or_default();
    let holds = check(file, pos, header, &mut buffer);
    let mut buffers = BUFFERS.lock();
    if buffers.len() < KEPT {
        buffers.push(buffer);
    }
    holds
}

fn check(file: &dyn File, pos: u64, header: &FrameHeader, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let mut left = usize::try_from(header.frame_len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let (mut at, mut crc) = (pos, None);
    while left > 0 {
        let len = left.min(CHUNK);
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let Some(chunk) = buffer.get_mut(..len) else { return Ok(false) };
        if file.read_full_at(chunk, at)? < len {
            return Ok(false);
        }
        crc = match crc {
            None => {
                let Some((found, stored)) = chunk.split_first_chunk::<HEADER_LEN>() else { return Ok(false) };
                if *found != header.encode() || found.first_chunk() != Some(&FRAME_MAGIC) {
                    return Ok(false);
                }
                Some(crc32c_append(frame_crc(found), stored))
            }
            Some(crc) => Some(crc32c_append(crc, chunk)),
        };
        (at, left) = (at + len as u64, left - len);
    }
    Ok(crc == Some(header.crc))
}
