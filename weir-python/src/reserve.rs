//! Reservations by RSVP from Python: what `weir reserve` does, while a block runs.

use crate::answer;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weir_core::units::{Dimension, Quantity};
use weir_host::rsvp::host::{Asked, HostPlan, HostRequest, Kept, Receiving, Sending, State};
use weir_rsvp::intserv::Tspec;
use weir_rsvp::wire::{Session, Style};

/// A flow that is announced, or reserved for, while a `with` block runs.
#[pyclass(frozen)]
pub struct Reservation {
    plan: HostPlan,
    /// How long to wait for the network's answer; an announced flow waits for none.
    wait: Option<Duration>,
    kept: Mutex<Option<Kept>>,
}

#[pymethods]
impl Reservation {
    /// Begins in this thread's network namespace; a receiver waits for the answer.
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let (py, own) = (slf.py(), slf.get());
        if own.locked().is_some() {
            return Err(PyValueError::new_err("this block runs already"));
        }
        let kept = py.detach(|| Kept::start(own.plan.clone())).map_err(os_error)?;
        if let Some(wait) = own.wait {
            own.decided(py, &kept, wait)?;
        }
        *own.locked() = Some(kept);
        Ok(slf)
    }

    /// Takes it back.
    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        let kept = self.locked().take();
        py.detach(|| drop(kept));
    }

    /// How it stands, as `weir reserve list --format json` has it; None outside its block.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let status = self.locked().as_ref().map(Kept::status);
        status.map(|status| answer::of(py, &status)).transpose()
    }
}

impl Reservation {
    fn new(plan: HostPlan, wait: Option<Duration>) -> Self {
        Self { plan, wait, kept: Mutex::new(None) }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits for the answer; Ctrl-C ends that.
    fn decided(&self, py: Python<'_>, kept: &Kept, wait: Duration) -> PyResult<()> {
        let start = Instant::now();
        loop {
            let slice = SLICE.min(wait.saturating_sub(start.elapsed()));
            let state = py.detach(|| kept.wait(slice));
            py.check_signals()?;
            let over = start.elapsed() >= wait;
            let why = match state {
                State::Accepted { .. } => return Ok(()),
                State::Waiting if over => "nobody announced the flow".to_owned(),
                State::Asked if over => "no router or sender answered".to_owned(),
                State::Waiting | State::Asked => continue,
                refused => refused.to_string(),
            };
            return Err(answer::error(py, why, &[]));
        }
    }
}

/// Reserves for a flow that this host receives, while a `with` block runs, as `weir reserve
/// receive` does.
///
/// The block begins once the reservation is accepted. Raises `weir.Error` if it is refused, or
/// nobody answers within `wait` seconds; `OSError` if the host cannot take part. `guaranteed` is a
/// rate such as "2 Mbit/s", `delay` a bound such as "20 ms"; without both it asks for controlled
/// load. `options` is a dict of `style` ("ff", "se" or "wf"), `senders` (addresses), `rate`,
/// `wait`, `tcp`, `interface`, `key_file` and `refresh` (seconds).
#[pyfunction]
#[pyo3(signature = (address, port, guaranteed = None, delay = None, options = None))]
pub fn reserve(
    address: &str,
    port: u16,
    guaranteed: Option<&str>,
    delay: Option<&str>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Reservation> {
    let service = match (guaranteed, delay) {
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("give `guaranteed` or `delay`, not both"));
        }
        (Some(rate), None) => Asked::Rate(bytes_per_second(rate)?),
        (None, Some(delay)) => Asked::Delay(micros(delay)?),
        (None, None) => Asked::ControlledLoad,
    };
    let options = Options::of(options, &["style", "senders", "rate", "wait"])?;
    let style = match options.take::<String>("style")?.as_deref() {
        None | Some("ff") => Style::Fixed,
        Some("se") => Style::Shared,
        Some("wf") => Style::Wildcard,
        Some(other) => {
            return Err(PyValueError::new_err(format!("`{other}` is not ff, se or wf")));
        }
    };
    let senders = options.take::<Vec<String>>("senders")?.unwrap_or_default();
    let senders =
        senders.iter().map(|text| Ok((parsed(text)?, 0))).collect::<PyResult<Vec<_>>>()?;
    let rate = options.take::<String>("rate")?.as_deref().map(bytes_per_second).transpose()?;
    let wait = seconds(options.take("wait")?.unwrap_or(WAIT_SECONDS))?;
    let request = HostRequest::Receive(Receiving {
        style,
        service,
        senders,
        rate,
        bucket: None,
        priority: None,
    });
    Ok(Reservation::new(options.plan((address, port), request)?, Some(wait)))
}

/// Announces a flow that this host sends, while a `with` block runs, as `weir reserve send` does.
///
/// `rate` is what it sends at most, such as "2 Mbit/s", with the headers of IP. `options` is a dict
/// of `bucket` (how much at once, such as "20 kB"), `packet_min` and `packet_max` (bytes), `source`
/// and `source_port` (by default the kernel's choice and any port), `tcp`, `interface`, `key_file`
/// and `refresh` (seconds). Raises `OSError` if the host cannot take part.
#[pyfunction]
#[pyo3(signature = (address, port, rate, options = None))]
pub fn announce(
    address: &str,
    port: u16,
    rate: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Reservation> {
    let rate = bytes_per_second(rate)?;
    let own = ["bucket", "packet_min", "packet_max", "source", "source_port"];
    let options = Options::of(options, &own)?;
    let packet_max: Option<u32> = options.take("packet_max")?;
    let usual = (rate * BUCKET_SECONDS).max(2.0 * packet_max.unwrap_or(MTU_USUAL) as f32);
    let bucket = options.take::<String>("bucket")?;
    let tspec = Tspec {
        rate,
        bucket: bucket.as_deref().map(bytes).transpose()?.unwrap_or(usual),
        peak: f32::INFINITY,
        packet_min: options.take("packet_min")?.unwrap_or(PACKET_MIN),
        packet_max: packet_max.unwrap_or(0),
    };
    let from = options.take::<String>("source")?.as_deref().map(parsed).transpose()?;
    let port_from = options.take("source_port")?.unwrap_or(0);
    let request = HostRequest::Send(Sending { from, port: port_from, tspec, ttl: TTL });
    Ok(Reservation::new(options.plan((address, port), request)?, None))
}

/// The keyword arguments of a call.
struct Options<'a, 'py>(Option<&'a Bound<'py, PyDict>>);

impl<'a, 'py> Options<'a, 'py> {
    /// Takes a dict whose keys are `own` or common ones.
    fn of(given: Option<&'a Bound<'py, PyDict>>, own: &[&str]) -> PyResult<Self> {
        for key in given.iter().flat_map(|given| given.keys().iter()) {
            let key: String = key.extract()?;
            if !own.iter().chain(&COMMON).any(|known| *known == key) {
                let known = own.iter().chain(&COMMON).copied().collect::<Vec<_>>().join(", ");
                let why = format!("`{key}` is not an option; there are {known}");
                return Err(PyValueError::new_err(why));
            }
        }
        Ok(Self(given))
    }

    fn take<T: FromPyObjectOwned<'py>>(&self, key: &str) -> PyResult<Option<T>> {
        let value = self.0.map(|given| given.get_item(key)).transpose()?.flatten();
        value.map(|value| value.extract().map_err(Into::into)).transpose()
    }

    fn plan(&self, (address, port): (&str, u16), request: HostRequest) -> PyResult<HostPlan> {
        let protocol = if self.take("tcp")?.unwrap_or(false) { TCP } else { UDP };
        let session = Session { destination: parsed(address)?, protocol, port };
        let refresh = seconds(self.take("refresh")?.unwrap_or(REFRESH_SECONDS))?;
        let refresh = weir_core::units::Duration::from_nanos(refresh.as_nanos() as u64);
        let keys = self.take::<PathBuf>("key_file")?.map(fs::read_to_string).transpose()?;
        Ok(HostPlan { session, interface: self.take("interface")?, refresh, keys, request })
    }
}

fn parsed(address: &str) -> PyResult<IpAddr> {
    address.parse().map_err(|_| PyValueError::new_err(format!("`{address}` is no IP address")))
}

fn seconds(number: f64) -> PyResult<Duration> {
    if !(SECONDS.0..=SECONDS.1).contains(&number) {
        let (least, most) = SECONDS;
        let why = format!("{number} seconds are not within {least} and {most}");
        return Err(PyValueError::new_err(why));
    }
    Ok(Duration::from_secs_f64(number))
}

fn quantity(text: &str, dimension: Dimension) -> PyResult<Quantity> {
    let read = Quantity::parse_as(text, dimension);
    read.map_err(|error| PyValueError::new_err(error.to_string()))
}

fn bytes_per_second(text: &str) -> PyResult<f32> {
    match quantity(text, Dimension::Rate)? {
        Quantity::Rate(rate) => Ok((rate.bits_per_second() as f64 / 8.0) as f32),
        other => Err(PyValueError::new_err(format!("{other:?} is no rate"))),
    }
}

fn bytes(text: &str) -> PyResult<f32> {
    match quantity(text, Dimension::Bytes)? {
        Quantity::Bytes(bytes) => Ok(bytes.get() as f32),
        other => Err(PyValueError::new_err(format!("{other:?} is no size"))),
    }
}

fn micros(text: &str) -> PyResult<f64> {
    match quantity(text, Dimension::Duration)? {
        Quantity::Duration(time) => Ok(time.as_nanos() as f64 / 1e3),
        other => Err(PyValueError::new_err(format!("{other:?} is no time"))),
    }
}

fn os_error(error: weir_host::error::SystemError) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// How often a wait looks for Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);
/// A tenth of a second to a year.
const SECONDS: (f64, f64) = (0.1, 31_536_000.0);
const UDP: u8 = 17;
const TCP: u8 = 6;
const TTL: u8 = 64;
/// The usual bucket holds what comes in this time.
const BUCKET_SECONDS: f32 = 0.1;
const MTU_USUAL: u32 = 1500;
const PACKET_MIN: u32 = 64;
const WAIT_SECONDS: f64 = 60.0;
const REFRESH_SECONDS: f64 = 30.0;
/// Options of both calls.
const COMMON: [&str; 4] = ["tcp", "interface", "key_file", "refresh"];
