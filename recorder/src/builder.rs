//! How a recorder is made, and what can go wrong.

use crate::endpoint::Endpoint;
use crate::histogram::Shape;
use crate::recorder::Recorder;
use std::{error, fmt, io};

/// Where an installed recorder answers if it was not told: the port of the facade's own Prometheus exporter, but on this machine only.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9000";
/// As that exporter has them.
const DEFAULT_QUANTILES: [f64; 7] = [0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// Makes a [`Recorder`].
///
/// ```
/// use metrics::counter;
///
/// // Before: metrics_exporter_prometheus::PrometheusBuilder::new().install()?;
/// let recorder = commensal_metrics::Builder::new().listen("127.0.0.1:0").install()?;
///
/// counter!("requests", "path" => "/").increment(1);
/// assert!(recorder.render().contains("requests_total{path=\"/\"} 1\n"));
/// # Ok::<(), commensal_metrics::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    address: String,
    quantiles: Vec<f64>,
    buckets: Vec<f64>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Listens on [`DEFAULT_ADDRESS`] when it is installed, and tells of histograms the quantiles 0, 0.5, 0.9, 0.95, 0.99, 0.999 and 1.
    pub fn new() -> Self {
        Builder { address: DEFAULT_ADDRESS.to_owned(), quantiles: DEFAULT_QUANTILES.to_vec(), buckets: Vec::new() }
    }

    /// Has [`install`](Self::install) listen elsewhere: an IP address and a port, 0 for any that is free. Beyond a loopback address everybody who can reach
    /// it reads what is counted.
    #[must_use]
    pub fn listen(self, address: impl fmt::Display) -> Self {
        Builder { address: address.to_string(), ..self }
    }

    /// Which quantiles are told of histograms: of all values since the beginning.
    #[must_use]
    pub fn quantiles(self, quantiles: &[f64]) -> Self {
        Builder { quantiles: quantiles.to_vec(), ..self }
    }

    /// Tells of histograms, instead of quantiles, how many values are at most each of these bounds.
    #[must_use]
    pub fn buckets(self, bounds: &[f64]) -> Self {
        Builder { buckets: bounds.to_vec(), ..self }
    }

    /// A recorder that is not installed: for [`metrics::with_local_recorder`], or to be put behind other layers.
    ///
    /// # Errors
    /// [`Error::Quantiles`] and [`Error::Buckets`].
    pub fn build(&self) -> Result<Recorder, Error> {
        if let Some(&quantile) = self.quantiles.iter().find(|quantile| !(0.0..=1.0).contains(*quantile)) {
            return Err(Error::Quantiles(quantile));
        }
        let rise = self.buckets.windows(2).all(|pair| pair[0] < pair[1]);
        if !rise || !self.buckets.iter().all(|bound| bound.is_finite()) {
            return Err(Error::Buckets(self.buckets.clone()));
        }
        let has_buckets = !self.buckets.is_empty();
        Ok(Recorder::new(if has_buckets {
            Shape::Buckets(self.buckets.clone())
        } else {
            Shape::Quantiles(self.quantiles.clone())
        }))
    }

    /// Makes a recorder that counts what the facade's macros say from now on, without a listener.
    ///
    /// # Errors
    /// Those of [`build`](Self::build), and [`Error::Installed`]; then nothing has changed.
    pub fn install_recorder(&self) -> Result<Recorder, Error> {
        let recorder = self.build()?;
        metrics::set_global_recorder(recorder.clone()).map_err(|_| Error::Installed)?;
        Ok(recorder)
    }

    /// Makes a recorder that counts what the facade's macros say from now on, and a thread that tells it to whoever asks for `/metrics` by HTTP.
    ///
    /// # Errors
    /// Those of [`install_recorder`](Self::install_recorder), [`Error::Address`] and [`Error::Listen`]; then nothing has changed. [`Error::Thread`].
    pub fn install(&self) -> Result<Recorder, Error> {
        let endpoint = self.bind()?;
        let recorder = self.install_recorder()?;
        endpoint.serve(recorder.clone())?;
        Ok(recorder)
    }

    fn bind(&self) -> Result<Endpoint, Error> {
        let address = self.address.parse().map_err(|_| Error::Address(self.address.clone()))?;
        Endpoint::bind(address)
    }
}

/// Why a recorder was not made, or not installed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// This is no address.
    Address(String),
    /// Nobody can listen there now.
    Listen(std::net::SocketAddr, io::Error),
    /// The thread that answers did not start. The recorder is installed, and counts.
    Thread(io::Error),
    /// There is a global recorder already, of this or another kind; it stays.
    Installed,
    /// This is no quantile.
    Quantiles(f64),
    /// These are no bounds.
    Buckets(Vec<f64>),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address(found) => {
                write!(
                    out,
                    "\"{found}\" is no address to listen on: expected an IP address and a port, as in {DEFAULT_ADDRESS}"
                )
            }
            Error::Listen(address, why) => write!(out, "cannot listen on {address}: {why}"),
            Error::Thread(why) => write!(out, "the recorder counts, but the thread that tells it did not start: {why}"),
            Error::Installed => out
                .write_str("a recorder is installed already, and goes on counting: install one for each process only"),
            Error::Quantiles(found) => write!(out, "{found} is no quantile: expected numbers from 0 to 1"),
            Error::Buckets(found) => {
                write!(
                    out,
                    "{found:?} are no bounds of buckets: expected finite numbers, each larger than the one before"
                )
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Listen(_, why) | Error::Thread(why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_are_told() {
        let complaint = |builder: Builder| builder.build().expect_err("bad settings").to_string();
        assert_eq!(
            complaint(Builder::new().quantiles(&[0.5, 1.5])),
            "1.5 is no quantile: expected numbers from 0 to 1"
        );
        assert!(complaint(Builder::new().quantiles(&[f64::NAN])).starts_with("NaN is no quantile"));
        for bad in [&[2.0, 1.0][..], &[1.0, 1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert!(complaint(Builder::new().buckets(bad)).contains("no bounds of buckets"));
        }
    }

    #[test]
    fn bad_addresses_are_told_before_anything_is_installed() {
        let complaint =
            |address: &str| Builder::new().listen(address).install().expect_err("a bad address").to_string();
        for bad in ["", "localhost", "127.0.0.1", "127.0.0.1:65536", ":9000"] {
            let found = complaint(bad);
            assert!(found.starts_with(&format!("\"{bad}\" is no address to listen on")), "{found}");
        }
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = taken.local_addr().expect("it has one").to_string();
        assert!(complaint(&address).starts_with(&format!("cannot listen on {address}: ")));
        assert!(complaint("192.0.2.1:80").starts_with("cannot listen on 192.0.2.1:80: "));
        // Nothing was installed: a recorder of somebody else's still finds its place.
        assert!(metrics::set_global_recorder(metrics::NoopRecorder).is_ok());
    }
}
