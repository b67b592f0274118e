//! Integrated services on the wire: words of 32 bits, headers by service and parameter
//! [rfc2210 §3].

use super::adspec::{
    Adspec, ControlledLoadPath, General, GuaranteedPath, OtherService, Overrides, Terms,
};
use super::spec::{Flowspec, Rspec, Tspec};
use crate::wire::{Fault, Reader};

/// Reads the contents of SENDER_TSPEC.
pub fn parse_tspec(reader: &mut Reader<'_>) -> Result<Tspec, Fault> {
    let mut body = whole(reader)?;
    let (number, _, mut block) = service(&mut body)?;
    expect("service number", number.into(), GENERAL.into(), "1, general information")?;
    let tspec = token_bucket(&mut block)?;
    ends(&block)?;
    ends(&body)?;
    Ok(tspec)
}

/// Reads the contents of FLOWSPEC; none if the service is unknown.
pub fn parse_flowspec(reader: &mut Reader<'_>) -> Result<Option<Flowspec>, Fault> {
    let mut body = whole(reader)?;
    let (number, _, mut block) = service(&mut body)?;
    let flowspec = match number {
        CONTROLLED_LOAD => Flowspec::ControlledLoad(token_bucket(&mut block)?),
        GUARANTEED => {
            let tspec = token_bucket(&mut block)?;
            let (number, mut words) = parameter(&mut block)?;
            expect("parameter", number.into(), RSPEC.into(), "130, the Rspec")?;
            let rspec = Rspec { rate: words.amount("service rate R")?, slack: words.u32()? };
            ends(&words)?;
            Flowspec::Guaranteed(tspec, rspec)
        }
        _ => return Ok(None),
    };
    ends(&block)?;
    ends(&body)?;
    Ok(Some(flowspec))
}

/// Reads the contents of ADSPEC.
pub fn parse_adspec(reader: &mut Reader<'_>) -> Result<Adspec, Fault> {
    let mut body = whole(reader)?;
    let (number, broken, mut block) = service(&mut body)?;
    expect("first service", number.into(), GENERAL.into(), "1, general parameters")?;
    let general = parse_general(broken, &mut block)?;
    let mut adspec =
        Adspec { general, guaranteed: None, controlled_load: None, others: Vec::new() };
    while !body.is_empty() {
        let (number, broken, mut block) = service(&mut body)?;
        match number {
            GUARANTEED if adspec.guaranteed.is_none() => {
                adspec.guaranteed = Some(parse_guaranteed(broken, &mut block)?);
            }
            CONTROLLED_LOAD if adspec.controlled_load.is_none() => {
                let (overrides, _) = parse_overrides(&mut block)?;
                adspec.controlled_load = Some(ControlledLoadPath { broken, overrides });
            }
            GUARANTEED | CONTROLLED_LOAD | GENERAL => return Err(Fault::Misplaced("service")),
            _ if adspec.others.len() == SERVICES_MAX => {
                return Err(Fault::TooMany { what: "services", limit: SERVICES_MAX });
            }
            _ => {
                let bytes = block.rest().to_vec();
                adspec.others.push(OtherService { number, broken, bytes });
            }
        }
    }
    Ok(adspec)
}

/// Appends the contents of SENDER_TSPEC.
pub fn build_tspec(bytes: &mut Vec<u8>, tspec: &Tspec) {
    with_length(bytes, |bytes| {
        put_service(bytes, (GENERAL, false), |bytes| put_token_bucket(bytes, tspec));
    });
}

/// Appends the contents of FLOWSPEC.
pub fn build_flowspec(bytes: &mut Vec<u8>, flowspec: &Flowspec) {
    with_length(bytes, |bytes| match flowspec {
        Flowspec::ControlledLoad(tspec) => {
            put_service(bytes, (CONTROLLED_LOAD, false), |bytes| put_token_bucket(bytes, tspec));
        }
        Flowspec::Guaranteed(tspec, rspec) => put_service(bytes, (GUARANTEED, false), |bytes| {
            put_token_bucket(bytes, tspec);
            put_parameter(bytes, RSPEC, &[rspec.rate.to_bits(), rspec.slack]);
        }),
    });
}

/// Appends the contents of ADSPEC.
pub fn build_adspec(bytes: &mut Vec<u8>, adspec: &Adspec) {
    let Adspec { general, guaranteed, controlled_load, others } = adspec;
    with_length(bytes, |bytes| {
        put_service(bytes, (GENERAL, general.broken), |bytes| {
            put_overrides(bytes, &general.values());
        });
        if let Some(path) = guaranteed {
            put_service(bytes, (GUARANTEED, path.broken), |bytes| {
                put_parameter(bytes, C_TOTAL, &[path.total.c]);
                put_parameter(bytes, D_TOTAL, &[path.total.d]);
                put_parameter(bytes, C_SINCE, &[path.since.c]);
                put_parameter(bytes, D_SINCE, &[path.since.d]);
                put_overrides(bytes, &path.overrides);
            });
        }
        if let Some(path) = controlled_load {
            put_service(bytes, (CONTROLLED_LOAD, path.broken), |bytes| {
                put_overrides(bytes, &path.overrides);
            });
        }
        for other in others {
            put_service(bytes, (other.number, other.broken), |bytes| bytes.extend(&other.bytes));
        }
    });
}

/// Reads the message header of [rfc2210 §3]: version 0, and the length of what follows in words.
fn whole<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, Fault> {
    let word = reader.u32()?;
    expect("format version", word >> 28, 0, "0")?;
    let words = (word & 0xffff) as usize;
    let body = Reader::new(reader.take(words * 4)?);
    Ok(body)
}

/// Reads a service header; returns the service, its break bit, and its parameters.
fn service<'a>(reader: &mut Reader<'a>) -> Result<(u8, bool, Reader<'a>), Fault> {
    let number = reader.u8()?;
    let broken = reader.u8()? & BREAK != 0;
    let words = usize::from(reader.u16()?);
    Ok((number, broken, Reader::new(reader.take(words * 4)?)))
}

/// Reads a parameter header; returns the parameter and its words.
fn parameter<'a>(reader: &mut Reader<'a>) -> Result<(u8, Reader<'a>), Fault> {
    let number = reader.u8()?;
    reader.u8()?;
    let words = usize::from(reader.u16()?);
    Ok((number, Reader::new(reader.take(words * 4)?)))
}

fn token_bucket(reader: &mut Reader<'_>) -> Result<Tspec, Fault> {
    let (number, mut words) = parameter(reader)?;
    expect("parameter", number.into(), TOKEN_BUCKET.into(), "127, the token bucket")?;
    let tspec = Tspec {
        rate: words.amount("token rate r")?,
        bucket: words.amount("bucket size b")?,
        peak: words.amount("peak rate p")?,
        packet_min: words.u32()?,
        packet_max: words.u32()?,
    };
    ends(&words)?;
    Ok(tspec)
}

fn parse_general(broken: bool, block: &mut Reader<'_>) -> Result<General, Fault> {
    let (values, _) = parse_overrides(block)?;
    let general = || {
        let (hops, bandwidth) = (values.hops?, values.bandwidth?);
        Some(General { broken, hops, bandwidth, latency: values.latency?, mtu: values.mtu? })
    };
    general().ok_or(Fault::Missing("general parameter of the ADSPEC"))
}

fn parse_guaranteed(broken: bool, block: &mut Reader<'_>) -> Result<GuaranteedPath, Fault> {
    let (overrides, terms) = parse_overrides(block)?;
    let path = || {
        let total = Terms { c: terms[0]?, d: terms[1]? };
        let since = Terms { c: terms[2]?, d: terms[3]? };
        Some(GuaranteedPath { broken, total, since, overrides })
    };
    path().ok_or(Fault::Missing("term C or D of the ADSPEC"))
}

/// Reads parameters in any order: general ones, and Ctot, Dtot, Csum, Dsum. Unknown ones are left
/// out: no hop may vouch for a value that it cannot compose.
fn parse_overrides(block: &mut Reader<'_>) -> Result<(Overrides, [Option<u32>; 4]), Fault> {
    let mut values = Overrides::default();
    let mut terms = [None; 4];
    while !block.is_empty() {
        let (number, mut words) = parameter(block)?;
        match number {
            HOPS => values.hops = Some(words.u32()?),
            BANDWIDTH => values.bandwidth = Some(words.amount("path bandwidth")?),
            LATENCY => values.latency = Some(words.u32()?),
            MTU => values.mtu = Some(words.u32()?),
            C_TOTAL..=D_SINCE => terms[usize::from(number - C_TOTAL)] = Some(words.u32()?),
            _ => drop(words.rest()),
        }
        ends(&words)?;
    }
    Ok((values, terms))
}

fn expect(what: &'static str, found: u32, value: u32, wanted: &'static str) -> Result<(), Fault> {
    if found == value { Ok(()) } else { Err(Fault::Value { what, found, wanted }) }
}

fn ends(reader: &Reader<'_>) -> Result<(), Fault> {
    if reader.is_empty() { Ok(()) } else { Err(Fault::Trailing(reader.len())) }
}

impl General {
    fn values(&self) -> Overrides {
        let (hops, bandwidth) = (Some(self.hops), Some(self.bandwidth));
        Overrides { hops, bandwidth, latency: Some(self.latency), mtu: Some(self.mtu) }
    }
}

fn put_overrides(bytes: &mut Vec<u8>, values: &Overrides) {
    let words = [
        (HOPS, values.hops),
        (BANDWIDTH, values.bandwidth.map(f32::to_bits)),
        (LATENCY, values.latency),
        (MTU, values.mtu),
    ];
    for (number, word) in words {
        word.iter().for_each(|word| put_parameter(bytes, number, &[*word]));
    }
}

fn put_token_bucket(bytes: &mut Vec<u8>, tspec: &Tspec) {
    let rates = [tspec.rate, tspec.bucket, tspec.peak].map(f32::to_bits);
    let words = [rates[0], rates[1], rates[2], tspec.packet_min, tspec.packet_max];
    put_parameter(bytes, TOKEN_BUCKET, &words);
}

fn put_parameter(bytes: &mut Vec<u8>, number: u8, words: &[u32]) {
    bytes.extend([number, 0, 0, words.len() as u8]);
    words.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
}

fn put_service(
    bytes: &mut Vec<u8>,
    (number, broken): (u8, bool),
    parameters: impl FnOnce(&mut Vec<u8>),
) {
    let start = bytes.len();
    bytes.extend([number, if broken { BREAK } else { 0 }, 0, 0]);
    parameters(bytes);
    put_words(bytes, start);
}

/// Appends a message header, then what `body` appends.
fn with_length(bytes: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    body(bytes);
    put_words(bytes, start);
}

/// Writes the number of words behind the header at `start` into its second half.
fn put_words(bytes: &mut [u8], start: usize) {
    let words = u16::try_from((bytes.len() - start - 4) / 4).expect("an object is below 64 KiB");
    bytes[start + 2..start + 4].copy_from_slice(&words.to_be_bytes());
}

/// Services [rfc2210 §3, rfc2211, rfc2212].
const GENERAL: u8 = 1;
const GUARANTEED: u8 = 2;
const CONTROLLED_LOAD: u8 = 5;

/// Parameters [rfc2210 §3, rfc2215].
const HOPS: u8 = 4;
const BANDWIDTH: u8 = 6;
const LATENCY: u8 = 8;
const MTU: u8 = 10;
const TOKEN_BUCKET: u8 = 127;
const RSPEC: u8 = 130;
const C_TOTAL: u8 = 133;
const D_TOTAL: u8 = 134;
const C_SINCE: u8 = 135;
const D_SINCE: u8 = 136;

/// The bit of a service header that says that a hop does not offer the service.
const BREAK: u8 = 0x80;

/// Unknown services of an ADSPEC.
const SERVICES_MAX: usize = 16;
