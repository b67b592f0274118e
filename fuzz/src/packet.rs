//! Target `packet`: header parsing and classification of any bytes.
//!
//! The input is a link type (one byte), then packets, each behind a byte with its length, so that
//! fragments can follow one another through one classifier.

use weir_core::classify::{
    Classifier, FragmentLimits, FragmentPolicy, InterfaceId, Match, PortRange, Reason, Rule,
};
use weir_core::ids::LeafId;
use weir_core::packet::{Addresses, Depth, Fragment, Headers, LinkType, Protocol};
use weir_core::units::{Duration, Instant};

/// Parses and classifies the packets of an input.
pub fn packet(input: &[u8]) {
    let Some((&link, mut rest)) = input.split_first() else { return };
    let link = LinkType::ALL[usize::from(link) % LinkType::ALL.len()];
    let mut classifier = classifier();
    let mut firsts = Vec::new();
    let mut millis = 0;
    while let Some((&len, bytes)) = rest.split_first() {
        let (bytes, behind) = bytes.split_at(bytes.len().min(len.into()));
        rest = behind;
        millis += 1;
        let headers = Headers::parse(link, bytes);
        check_headers(&headers, bytes);
        check_leaf(&mut classifier, &mut firsts, Instant::from_nanos(millis * 1_000_000), &headers);
    }
}

fn check_headers(headers: &Headers, bytes: &[u8]) {
    let later = matches!(headers.fragment, Fragment::Later { .. });
    assert!(!(later && headers.ports.is_some()), "a later fragment has no ports");
    assert_eq!(headers.ports.is_some(), headers.depth == Depth::Transport);
    assert_eq!(headers.addresses != Addresses::Unknown, headers.depth >= Depth::Network);
    assert!(headers.vlan.is_some() || headers.vlan_inner.is_none(), "an inner tag has an outer");
    assert!(headers.tcp_flags().is_none() || headers.protocol == Some(Protocol::TCP));
    let is_icmp = matches!(headers.protocol, Some(Protocol::ICMP | Protocol::ICMPV6));
    assert!(headers.icmp().is_none() || is_icmp && !later);
    assert!(usize::from(headers.link_len) <= bytes.len(), "the headers are within the bytes");
    assert!(headers.unread.is_none() || headers.depth < Depth::Network, "what was read was read");
    assert!(
        headers.network_len.is_none_or(|len| len >= 20),
        "no packet is shorter than its header"
    );
}

/// A first fragment and the leaf that it went to.
type First = (Addresses, u32, LeafId);

fn check_leaf(
    classifier: &mut Classifier,
    firsts: &mut Vec<First>,
    now: Instant,
    headers: &Headers,
) {
    let before = classifier.clone().classify(now, InterfaceId(0), headers);
    let classified = classifier.classify(now, InterfaceId(0), headers);
    assert_eq!(before, classified, "same state, same packet, same leaf");
    match classified.reason {
        Reason::Rule(index) => assert_eq!(classified.leaf, LeafId(index as u32)),
        Reason::Default => assert_eq!(classified.leaf, DEFAULT),
        Reason::Joined(_) => panic!("no class has joined"),
        Reason::Fragment => {
            let Fragment::Later { id, .. } = headers.fragment else {
                panic!("only later fragments follow")
            };
            let first = (headers.addresses, id, classified.leaf);
            assert!(firsts.contains(&first), "a fragment follows a first that was seen");
        }
    }
    if let Fragment::First(id) = headers.fragment {
        firsts.push((headers.addresses, id, classified.leaf));
    }
}

fn classifier() -> Classifier {
    let udp = Match { protocol: Some(Protocol::UDP), ..Match::default() };
    let source_ports = vec![PortRange::single(53)];
    let named = Match { source_ports, ..udp.clone() };
    let prefix = |text: &str| vec![text.parse().expect("the prefix is valid")];
    let hosts4 = Match { sources: prefix("10.0.0.0/8"), ..Match::default() };
    let hosts6 = Match { destinations: prefix("2001:db8::/32"), ..Match::default() };
    let rule = |(index, matches)| Rule::new(matches, LeafId(index as u32));
    let rules = [named, udp, hosts4, hosts6].into_iter().enumerate().map(rule).collect();
    // The smallest table, so that a few packets fill it.
    let limits = FragmentLimits::new(4, Duration::from_secs(30)).expect("four is allowed");
    Classifier::new(rules, DEFAULT, FragmentPolicy::Follow(limits))
}

const DEFAULT: LeafId = LeafId(99);
