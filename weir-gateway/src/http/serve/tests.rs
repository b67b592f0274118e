//! Tests of an endpoint with TLS, by a client of the same library.

use super::*;
use axum::routing::get;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring, version,
};
use weir_control::gateway::{Api, Secret};
use weir_testbed::PATIENCE;

/// A certificate of `localhost` until the year 2126, and its key.
const PEM: &str = include_str!("localhost.pem");

/// An endpoint with TLS, with so many places, and what it tells of refused clients.
fn scene(clients_max: usize, patience: Patience) -> (Server, SocketAddr, mpsc::Receiver<Refusal>) {
    let listener = StdListener::bind("127.0.0.1:0").expect("it can be bound");
    let address = listener.local_addr().expect("it has one");
    let web = Web::new(&Api {
        listen: address,
        token: Secret("x".repeat(32)),
        read_token: None,
        certificate: Some(PEM.to_owned()),
        key: Some(Secret(PEM.to_owned())),
        hosts: Vec::new(),
    });
    let (refused, refusals) = mpsc::channel(8);
    let endpoint = Endpoint {
        listener: super::listener(listener.into()).expect("it is a socket"),
        web: Arc::new(web.expect("certificate and key are sound")),
        router: Router::new().route("/", get(|| async { "here" })),
        clients_max,
        patience,
        refused: Some(refused),
    };
    let server = Server::start(runtime().expect("descriptors"), vec![endpoint]).expect("a thread");
    (server, address, refusals)
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    client
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts the certificate.
fn tls(address: SocketAddr) -> Tls {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(PEM.as_bytes()).expect("there is one");
    roots.add(certificate).expect("it is sound");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13])
        .expect("the library knows it")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    StreamOwned::new(client, connect(address))
}

#[test]
fn requests_within_tls_are_met_one_after_the_other() {
    let (_server, address, _refusals) = scene(1, Patience::default());
    let mut client = tls(address);
    for end in ["", "Connection: close\r\n"] {
        let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
        client.write_all(head.as_bytes()).expect("it reads");
        let mut answer = [0; 12];
        client.read_exact(&mut answer).expect("it answers");
        assert_eq!(&answer, b"HTTP/1.1 200");
        let mut rest = Vec::new();
        while !rest.ends_with(b"here") {
            let mut byte = [0];
            client.read_exact(&mut byte).expect("it answers");
            rest.extend(byte);
        }
    }
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).expect("it ends as TLS does");
    assert!(rest.is_empty());
}

#[test]
fn a_client_that_does_not_begin_tls_is_given_up_and_its_place_is_free() {
    let short = Duration::from_millis(300);
    let patience = Patience { request: short, answer: PATIENCE };
    let (_server, address, mut refusals) = scene(1, patience);
    for (bytes, cause) in [(b"".as_slice(), Cause::Silent), (b"GET / HT", Cause::Malformed)] {
        let mut client = connect(address);
        client.write_all(bytes).expect("it reads");
        let mut rest = Vec::new();
        // One that is given up may be reset.
        let _ended = client.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
        assert_eq!(refusals.blocking_recv().map(|(cause, _)| cause), Some(cause));
    }
}
