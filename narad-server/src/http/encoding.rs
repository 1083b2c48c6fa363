//! Bodies that were sent compressed.
//!
//! One is undone whole, off the async threads and a few at a time: into memory that the limit bounds, whatever the
//! bytes claim. What is malformed, cut off or followed by something else is refused, never taken in part; several gzip
//! members or zstd frames are one body.

use std::{io::Read, sync::Arc};

use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use tokio::sync::Semaphore;
use zstd::zstd_safe::{self, DCtx, zstd_sys::ZSTD_ErrorCode};

use super::ApiError;

/// Bodies that are undone at one time.
const AT_ONCE: usize = 4;
/// A plain body up to this size is read where the request is; a larger one off the async threads as well.
const SMALL: usize = 64 << 10;

/// How a body was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Zstd,
    Gzip,
}

impl Encoding {
    /// What `Content-Encoding` says.
    ///
    /// # Errors
    /// 415 for another encoding, or several.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut found = Self::Plain;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let name = value.as_bytes().trim_ascii().to_ascii_lowercase();
            let encoding = match name.as_slice() {
                b"" | b"identity" => continue,
                b"zstd" => Self::Zstd,
                b"gzip" | b"x-gzip" => Self::Gzip,
                _ => return Err(unsupported()),
            };
            if found != Self::Plain {
                return Err(unsupported());
            }
            found = encoding;
        }
        Ok(found)
    }

    /// The body as it was before it was encoded, at most `limit` bytes. Blocks for as long as that takes.
    fn undo(self, body: Bytes, limit: usize) -> Result<Bytes, ApiError> {
        match self {
            Self::Plain => Ok(body),
            Self::Zstd => zstd(&body, limit).map(Bytes::from),
            Self::Gzip => gzip(&body, limit).map(Bytes::from),
        }
    }
}

fn unsupported() -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: zstd or gzip")
}

/// Undoes and reads bodies, a few at a time.
#[derive(Debug, Clone)]
pub(super) struct Decoders(Arc<Semaphore>);

impl Default for Decoders {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Decoders {
    /// What `parse` makes of the body, which may have `limit` bytes once it is undone.
    ///
    /// # Errors
    /// What `parse` says; 400 for a body that is not what its encoding says, 413 for one that is too large undone.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        encoding: Encoding,
        body: Bytes,
        limit: usize,
        parse: fn(&Bytes) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        if encoding == Encoding::Plain && body.len() <= SMALL {
            return parse(&body);
        }
        let stopped = || ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the body could not be read");
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(|_| stopped())?;
        let work = move || {
            // Until it is done, also when the client has gone.
            let _turn = turn;
            parse(&encoding.undo(body, limit)?)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| stopped())?
    }
}

/// In one step, for which zstd needs no memory but the result's: read as a stream, a frame may claim a window of
/// gigabytes.
fn zstd(body: &[u8], limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::with_capacity(limit);
    match DCtx::create().decompress(&mut out, body) {
        Ok(_) => Ok(out),
        Err(code) if code == zstd_code(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => Err(too_large(limit)),
        Err(code) => Err(malformed("zstd", zstd_safe::get_error_name(code))),
    }
}

/// zstd returns its errors as negative sizes.
fn zstd_code(error: ZSTD_ErrorCode) -> usize {
    0usize.wrapping_sub(error as usize)
}

fn gzip(body: &[u8], limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(body).take(most).read_to_end(&mut out).map_err(|error| malformed("gzip", error))?;
    if out.len() > limit { Err(too_large(limit)) } else { Ok(out) }
}

fn malformed(encoding: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("body: not {encoding}, cut off, or followed by something else: {why}"))
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the decoded body has more than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstded(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    fn status(encoding: Encoding, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, u16> {
        encoding.undo(body.into(), limit).map(|body| body.to_vec()).map_err(|error| error.status.as_u16())
    }

    #[test]
    fn what_was_encoded_comes_back_up_to_the_limit() {
        let text = b"one two three ".repeat(1000);
        for (encoding, body) in [(Encoding::Zstd, zstded(&text)), (Encoding::Gzip, gzipped(&text))] {
            assert_eq!(status(encoding, body.clone(), text.len()), Ok(text.clone()), "{encoding:?}");
            assert_eq!(status(encoding, body.clone(), text.len() - 1), Err(413), "{encoding:?}");
            let twice = [body.clone(), body.clone()].concat();
            assert_eq!(status(encoding, twice, 1 << 20), Ok(text.repeat(2)), "{encoding:?}: two in a row");
            for garbage in [&b"x"[..], b"\0\0\0\0", b"garbage behind it"] {
                let body = [&body[..], garbage].concat();
                assert_eq!(status(encoding, body, 1 << 20), Err(400), "{encoding:?} and {garbage:?}");
            }
            for len in 1..body.len() {
                assert_eq!(
                    status(encoding, body[..len].to_vec(), 1 << 20),
                    Err(400),
                    "{encoding:?}: {len} bytes"
                );
            }
            assert_eq!(
                status(encoding, b"{\"messages\":[]}".to_vec(), 1 << 20),
                Err(400),
                "{encoding:?}: plain"
            );
        }
    }

    #[test]
    fn a_window_larger_than_the_limit_is_no_matter() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(b"little").unwrap();
        assert_eq!(status(Encoding::Zstd, encoder.finish().unwrap(), 100), Ok(b"little".to_vec()));
    }

    #[test]
    fn a_bomb_is_refused_at_the_limit() {
        let zeros = vec![0; 64 << 20];
        assert_eq!(status(Encoding::Zstd, zstded(&zeros), 1 << 20), Err(413));
        assert_eq!(status(Encoding::Gzip, gzipped(&zeros), 1 << 20), Err(413));
    }

    #[test]
    fn names_are_read_in_any_case_and_others_refused() {
        let named = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, header::HeaderValue::from_static(value));
            }
            Encoding::of(&headers).map_err(|error| error.status.as_u16())
        };
        assert_eq!(named(&[]), Ok(Encoding::Plain));
        assert_eq!(named(&["Identity"]), Ok(Encoding::Plain));
        assert_eq!(named(&["ZSTD"]), Ok(Encoding::Zstd));
        assert_eq!(named(&[" GZip "]), Ok(Encoding::Gzip));
        for refused in [&["br"][..], &["gzip, zstd"], &["gzip", "zstd"], &["deflate"]] {
            assert_eq!(named(refused), Err(415), "{refused:?}");
        }
    }
}
