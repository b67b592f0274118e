//! The sections of systemd's .network files.

use super::{CLOSE, KEPT, LOST, check};

#[test]
fn sections_of_disciplines_alone() {
    check(
        "systemd",
        "[Match]\nName=eth0\n[Route]\nGateway=192.0.2.1\n@\n",
        &[
            (
                "[CAKE]\nBandwidth=40M\nOverheadBytes=38\nPriorityQueueingPreset=besteffort\nRTTSec=50ms",
                KEPT,
                "",
                "# Interface eth0; [link]; rate = '40 Mbit/s'; scheduler = 'fifo'; overhead = { bytes = 24 }; ; [class.all]; queue = { dropper = 'cake', tins = 'besteffort', target = '2500 us', interval = '50 ms' }; ",
            ),
            (
                "[CAKE]\nAutoRateIngress=yes\nOverheadBytes=8\nUseRawPacketSize=yes\nMPUBytes=64\nBandwidth=40M",
                KEPT,
                "",
                "overhead = { bytes = 8, minimum = 64 }; follows_arrivals = true; ",
            ),
            (
                "[CAKE]\nBandwidth=40M\nFlowIsolationMode=dual-dst-host\nNAT=yes",
                CLOSE,
                "`nat` is left out",
                "hash = 'dual-dsthost'",
            ),
            (
                "[TokenBucketFilter]\nRate=5M\nBurstBytes=15K\nLimitBytes=30000",
                KEPT,
                "",
                "rate = '5 Mbit/s'; burst = '15360 B'; ; [class.all]; queue = { limit = '30000 B' }; ",
            ),
            (
                "[TokenBucketFilter]\nParent=root\nRate=8M\nBurstBytes=10000\nLatencySec=50ms",
                KEPT,
                "",
                "queue = { limit = '60000 B' }",
            ),
            (
                "[FairQueueingControlledDelay]\nPacketLimit=500\nMemoryLimitBytes=4M\nFlows=64\nTargetSec=7ms\nIntervalSec=0.09\nQuantumBytes=300\nECN=no",
                CLOSE,
                "--rate",
                "limit = '500 packets', memory = '4194304 B', flows = 64, target = '7 ms', interval = '90 ms', quantum = '300 B', ecn = false }",
            ),
            ("[ControlledDelay]\nPacketLimit=9\nECN=true", CLOSE, "", "dropper = 'codel'"),
            (
                "[EnhancedTransmissionSelection]\nBands=3\nStrictBands=1\nQuantumBytes=2000 1500",
                CLOSE,
                "--rate",
                "[class.band-2]; quantum = '2000 B'; ",
            ),
            ("[PIE]\nPacketLimit=9", CLOSE, "", "dropper = 'pie', limit = '9 packets'"),
            (
                "[StochasticFairnessQueueing]\nPerturbPeriodSec=10s",
                CLOSE,
                "`perturb` is left out",
                "dropper = 'sfq'",
            ),
            ("[PFIFO]\nPacketLimit=30", CLOSE, "", "limit = '30 packets'"),
            ("[BFIFO]\nLimitBytes=30K", CLOSE, "", "limit = '30720 B'"),
            ("[PFIFOHeadDrop]\nPacketLimit=3", CLOSE, "", "dropper = 'head'"),
        ],
    );
}

#[test]
fn sections_of_classes() {
    check(
        "systemd",
        "[Match]\nName=eth0\n\n[HierarchyTokenBucketClass]\nParent=1:1\nClassId=1:30\n\
         Rate=4M\n\n[HierarchyTokenBucket]\nHandle=1\nDefaultClass=30\n\n\
         [HierarchyTokenBucketClass]\nClassId=1:1\nRate=10M\n\n@\n",
        &[
            (
                "[HierarchyTokenBucketClass]\nParent=1:1\nClassId=1:10\nRate=2.5M\nCeilRate=10M\nPriority=3\nQuantumBytes=3K\nBufferBytes=15K",
                KEPT,
                "",
                "[class.1-10]; parent = '1-1'; rate = '2.5 Mbit/s'; ceil = '10 Mbit/s'; burst = '15360 B'; cburst = '1600 B'; prio = 3; quantum = '3072 B'; ",
            ),
            (
                "[FairQueueingControlledDelay]\nParent=1:30\nHandle=30",
                KEPT,
                "",
                "queue = { dropper = 'fq-codel' }; default = true; ",
            ),
            ("[NetworkEmulator]\nParent=1:30\nDelaySec=9ms", LOST, "no `netem`", "1-30"),
            (
                "[FairQueueing]\nParent=1:30\nPacing=yes\nMaximumRate=8M\nFlowLimit=50",
                KEPT,
                "a flow is a hash",
                "dropper = 'fq', maxrate = '8000000 bit/s', flow_limit = 50",
            ),
            ("[QDisc]\nParent=clsact", KEPT, "a hook", "1-30"),
            ("[Network]\nDHCP=yes", LOST, "orders and shapes no packets", "1-30"),
        ],
    );
    check(
        "systemd",
        "[DeficitRoundRobinScheduler]\nHandle=2\n@\n",
        &[(
            "[DeficitRoundRobinSchedulerClass]\nParent=root\nClassId=2:1\nQuantumBytes=9000",
            KEPT,
            "",
            "scheduler = 'drr'; ; [class.2-1]; quantum = '9000 B'; ",
        )],
    );
    check(
        "systemd",
        "[QuickFairQueueing]\nHandle=2\n@\n",
        &[("[QuickFairQueueingClass]\nClassId=2:1\nWeight=9", KEPT, "", "weight = 9; ")],
    );
}
