//! Numbers of the kernel's interface that `libc` does not have, under their names there and by the
//! header that has them; also the instructions of classic BPF, which are sums of what it has.

/// <linux/ethtool.h>: commands, and flags of the last four.
pub(crate) mod ethtool {
    pub const ETHTOOL_GDRVINFO: u32 = 0x03;
    pub const ETHTOOL_GRINGPARAM: u32 = 0x10;
    pub const ETHTOOL_GPAUSEPARAM: u32 = 0x12;
    pub const ETHTOOL_STXCSUM: u32 = 0x17;
    pub const ETHTOOL_GTSO: u32 = 0x1e;
    pub const ETHTOOL_STSO: u32 = 0x1f;
    pub const ETHTOOL_SGSO: u32 = 0x24;
    pub const ETHTOOL_GFLAGS: u32 = 0x25;
    pub const ETHTOOL_SFLAGS: u32 = 0x26;
    pub const ETHTOOL_GGRO: u32 = 0x2b;
    pub const ETHTOOL_SGRO: u32 = 0x2c;
    pub const ETHTOOL_GCHANNELS: u32 = 0x3c;
    pub const ETHTOOL_SCHANNELS: u32 = 0x3d;
    pub const ETH_FLAG_TXVLAN: u32 = 1 << 7;
    pub const ETH_FLAG_RXVLAN: u32 = 1 << 8;
    pub const ETH_FLAG_LRO: u32 = 1 << 15;
    pub const ETH_FLAG_RXHASH: u32 = 1 << 28;
    /// The words of `ethtool_drvinfo`: a command, the name in 32 bytes, then more.
    pub const DRVINFO_WORDS: usize = 49;
    /// The words of `ethtool_channels` and `ethtool_ringparam`: a command, four maxima, then the
    /// counts of receive, transmit, other and combined queues; or the sizes of the receive, mini,
    /// jumbo and transmit ring.
    pub const COUNTS_WORDS: usize = 9;
    /// The first of these counts, that of transmit queues, and the last.
    pub const COUNT_FIRST: usize = 5;
    pub const COUNT_TRANSMIT: usize = 6;
    pub const COUNT_LAST: usize = 8;
}

/// <linux/bpf.h>; flags of XDP are of <linux/if_link.h>.
pub(crate) mod bpf {
    use std::ffi::c_long;

    // `enum bpf_cmd`.
    pub const BPF_MAP_CREATE: c_long = 0;
    pub const BPF_MAP_LOOKUP_ELEM: c_long = 1;
    pub const BPF_MAP_UPDATE_ELEM: c_long = 2;
    pub const BPF_PROG_LOAD: c_long = 5;
    pub const BPF_PROG_TEST_RUN: c_long = 10;
    pub const BPF_OBJ_GET_INFO_BY_FD: c_long = 15;
    pub const BPF_PROG_QUERY: c_long = 16;
    pub const BPF_LINK_CREATE: c_long = 28;
    pub const BPF_LINK_UPDATE: c_long = 29;
    // `enum bpf_map_type`.
    pub const BPF_MAP_TYPE_HASH: u32 = 1;
    pub const BPF_MAP_TYPE_ARRAY: u32 = 2;
    pub const BPF_MAP_TYPE_XSKMAP: u32 = 17;
    pub const BPF_F_MMAPABLE: u32 = 1 << 10;
    // `enum bpf_prog_type`.
    pub const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
    pub const BPF_PROG_TYPE_XDP: u32 = 6;
    pub const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
    pub const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
    // `enum bpf_attach_type`.
    pub const BPF_XDP: u32 = 37;
    pub const BPF_TCX_INGRESS: u32 = 46;
    pub const BPF_TCX_EGRESS: u32 = 47;
    pub const BPF_F_BEFORE: u32 = 1 << 3;
    pub const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
    pub const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
    /// Of `bpf_redirect()`: into the interface, as if it received the frame.
    pub const BPF_F_INGRESS: i32 = 1;
}

/// <linux/capability.h>.
pub(crate) mod capability {
    pub const CAP_NET_ADMIN: u32 = 12;
    pub const CAP_NET_RAW: u32 = 13;
    pub const CAP_IPC_LOCK: u32 = 14;
    pub const CAP_SYS_ADMIN: u32 = 21;
    pub const CAP_BPF: u32 = 39;
    /// Sets of 64 bits.
    pub const _LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
}

/// <linux/if_packet.h>.
pub(crate) mod if_packet {
    use std::ffi::c_int;

    pub const PACKET_FANOUT_DATA: c_int = 22;
    pub const PACKET_FANOUT_CBPF: c_int = 6;
    pub const PACKET_FANOUT_FLAG_UNIQUEID: c_int = 0x2000;
    pub const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: c_int = 0x4000;
}

/// <linux/in6.h>, since Linux 5.2.
pub(crate) const IPV6_ROUTER_ALERT_ISOLATE: std::ffi::c_int = 30;

/// <linux/icmp.h> and <linux/icmpv6.h>: the options of raw sockets that name the messages which do
/// not come in.
pub(crate) mod icmp {
    use std::ffi::c_int;

    pub const ICMP_FILTER: c_int = 1;
    pub const ICMPV6_FILTER: c_int = 1;
    /// <linux/socket.h>.
    pub const SOL_RAW: c_int = 255;
    /// <linux/socket.h>.
    pub const SOL_ICMPV6: c_int = 58;
}

/// <linux/bpf.h>: what programs return.
pub mod verdict {
    /// `xdp_action`: drops the frame.
    pub const XDP_DROP: i32 = 1;
    /// `xdp_action`: hands the frame to the kernel's stack.
    pub const XDP_PASS: i32 = 2;
    /// `tcx_action_base`: goes on with the next program.
    pub const TCX_NEXT: i32 = -1;
    /// `tcx_action_base`: lets the packet pass.
    pub const TCX_PASS: i32 = 0;
    /// `tcx_action_base`: drops the packet.
    pub const TCX_DROP: i32 = 2;
}

/// <linux/bpf_common.h> and <linux/filter.h>: instructions of classic BPF. `A` is its accumulator,
/// `X` its index register, and `k` the number of the instruction.
pub mod classic {
    #![expect(missing_docs, reason = "their sums of the kernel's names say it")]

    use libc::{
        BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ,
        BPF_JGE, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LEN, BPF_LSH, BPF_MEM,
        BPF_MISC, BPF_MOD, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_SUB, BPF_TAX, BPF_TXA, BPF_W,
        BPF_X, BPF_XOR,
    };

    pub const LOAD_NUMBER: u16 = (BPF_LD | BPF_IMM) as u16;
    pub const LOAD_WORD: u16 = (BPF_LD | BPF_W | BPF_ABS) as u16;
    pub const LOAD_HALF: u16 = (BPF_LD | BPF_H | BPF_ABS) as u16;
    pub const LOAD_BYTE: u16 = (BPF_LD | BPF_B | BPF_ABS) as u16;
    pub const LOAD_WORD_X: u16 = (BPF_LD | BPF_W | BPF_IND) as u16;
    pub const LOAD_HALF_X: u16 = (BPF_LD | BPF_H | BPF_IND) as u16;
    pub const LOAD_BYTE_X: u16 = (BPF_LD | BPF_B | BPF_IND) as u16;
    pub const LOAD_LEN: u16 = (BPF_LD | BPF_W | BPF_LEN) as u16;
    pub const LOAD_SLOT: u16 = (BPF_LD | BPF_MEM) as u16;
    pub const LOAD_X: u16 = (BPF_LDX | BPF_IMM) as u16;
    pub const LOAD_X_SLOT: u16 = (BPF_LDX | BPF_MEM) as u16;
    pub const STORE: u16 = BPF_ST as u16;
    pub const ADD_X: u16 = (BPF_ALU | BPF_ADD | BPF_X) as u16;
    pub const SUBTRACT_X: u16 = (BPF_ALU | BPF_SUB | BPF_X) as u16;
    pub const XOR_X: u16 = (BPF_ALU | BPF_XOR | BPF_X) as u16;
    pub const MULTIPLY: u16 = (BPF_ALU | BPF_MUL | BPF_K) as u16;
    pub const MODULO: u16 = (BPF_ALU | BPF_MOD | BPF_K) as u16;
    pub const AND: u16 = (BPF_ALU | BPF_AND | BPF_K) as u16;
    pub const SHIFT_LEFT: u16 = (BPF_ALU | BPF_LSH | BPF_K) as u16;
    pub const SHIFT_RIGHT: u16 = (BPF_ALU | BPF_RSH | BPF_K) as u16;
    pub const JUMP: u16 = (BPF_JMP | BPF_JA) as u16;
    pub const JUMP_EQUAL: u16 = (BPF_JMP | BPF_JEQ | BPF_K) as u16;
    pub const JUMP_ABOVE: u16 = (BPF_JMP | BPF_JGT | BPF_K) as u16;
    pub const JUMP_AT_LEAST: u16 = (BPF_JMP | BPF_JGE | BPF_K) as u16;
    pub const JUMP_AT_LEAST_X: u16 = (BPF_JMP | BPF_JGE | BPF_X) as u16;
    pub const JUMP_ANY_BIT: u16 = (BPF_JMP | BPF_JSET | BPF_K) as u16;
    pub const RETURN: u16 = (BPF_RET | BPF_K) as u16;
    /// X = A.
    pub const KEEP_X: u16 = (BPF_MISC | BPF_TAX) as u16;
    /// A = X.
    pub const SAVE_X: u16 = (BPF_MISC | BPF_TXA) as u16;

    /// Where loads find what the kernel knows of a frame beside its bytes.
    pub const ANCILLARY: u32 = libc::SKF_AD_OFF as u32;
    pub const PACKET_TYPE: u32 = ANCILLARY + libc::SKF_AD_PKTTYPE as u32;
    pub const VLAN_TAG: u32 = ANCILLARY + libc::SKF_AD_VLAN_TAG as u32;
    pub const VLAN_TAG_PRESENT: u32 = ANCILLARY + libc::SKF_AD_VLAN_TAG_PRESENT as u32;
    /// Where loads find the link header.
    pub const LINK: u32 = libc::SKF_LL_OFF as u32;
}
