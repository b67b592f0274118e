/* rte_sched.c - cost of DPDK's hierarchical scheduler (librte_sched) on one core, without a network card.
 *
 * Closed loop, as in `weir bench`: a fixed population of packets; each round takes a burst out, gives each
 * packet a random queue and a random length (not timed) and puts the burst in again. Of twelve packets seven have
 * 64 bytes, four 594 and one 1514. The port has 100 Gbit/s, so that it does not hold the loop up: the count of
 * short bursts on standard error says whether it did. Built and run by bench/peers.
 *
 *   rte_sched [EAL args] -- SUBPORTS PIPES QUEUES PER_QUEUE ROUNDS RATE QSIZE
 *   PIPES     pipes in a subport
 *   QUEUES    queues used in a pipe: 1 = best effort queue 0; 4 = the best-effort queues;
 *             13 = one for each traffic class; 16 = all
 *   PER_QUEUE packets in a queue on average
 *   RATE      free: every pipe may use the whole port; fair: pipe rate = port rate / pipes
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

static uint64_t rs = 88172645463325252ull;
static inline uint64_t rnd(void) { rs ^= rs << 13; rs ^= rs >> 7; rs ^= rs << 17; return rs; }
static inline uint32_t length(void) { uint32_t k = rnd() % 12; return k < 7 ? 64 : k < 11 ? 594 : 1514; }
static int cmpd(const void *a, const void *b) { double x = *(const double *)a, y = *(const double *)b; return x < y ? -1 : x > y; }

int main(int ac, char **av)
{
	int used = rte_eal_init(ac, av);
	if (used < 0) return 1;
	ac -= used; av += used;
	if (ac < 8) { fprintf(stderr, "see the head of the source for the arguments\n"); return 1; }
	uint32_t nsub = atoi(av[1]), npipe = atoi(av[2]), nq = atoi(av[3]);
	double perq = atof(av[4]);
	long rounds = atol(av[5]);
	int fair = !strcmp(av[6], "fair");
	int qsize = atoi(av[7]);
	const uint32_t burst = 32;
	const int runs = 1;
	uint64_t rate = 12500000000ull;	/* 100 Gbit/s */
	uint64_t pop = (uint64_t)((double)nsub * npipe * nq * perq);
	if (pop < burst * 4) pop = burst * 4;

	struct rte_mempool *mp = rte_pktmbuf_pool_create("p", pop + 1024, 0, 0, 0, SOCKET_ID_ANY);
	if (!mp) { fprintf(stderr, "mempool of %" PRIu64 ": %s\n", pop, rte_strerror(rte_errno)); return 1; }

	struct rte_sched_port *port = NULL;
	{
		struct rte_sched_pipe_params pp; memset(&pp, 0, sizeof pp);
		pp.tb_rate = fair ? rate / ((uint64_t)nsub * npipe) : rate; pp.tb_size = 1000000; pp.tc_period = 40;
		for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) pp.tc_rate[i] = pp.tb_rate;
		for (int i = 0; i < RTE_SCHED_BE_QUEUES_PER_PIPE; i++) pp.wrr_weights[i] = 1;
		pp.tc_ov_weight = 1;
		struct rte_sched_subport_profile_params sp; memset(&sp, 0, sizeof sp);
		sp.tb_rate = fair ? rate / nsub : rate; sp.tb_size = 1000000; sp.tc_period = 10;
		for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) sp.tc_rate[i] = sp.tb_rate;
		struct rte_sched_port_params prm; memset(&prm, 0, sizeof prm);
		prm.name = "port"; prm.socket = 0; prm.rate = rate; prm.mtu = 1522; prm.frame_overhead = RTE_SCHED_FRAME_OVERHEAD_DEFAULT;
		prm.n_subports_per_port = nsub; prm.subport_profiles = &sp; prm.n_subport_profiles = 1; prm.n_max_subport_profiles = 1;
		prm.n_pipes_per_subport = npipe;
		port = rte_sched_port_config(&prm);
		if (!port) { fprintf(stderr, "port_config failed\n"); return 1; }
		for (uint32_t s = 0; s < nsub; s++) {
			struct rte_sched_subport_params sub; memset(&sub, 0, sizeof sub);
			sub.n_pipes_per_subport_enabled = npipe; sub.pipe_profiles = &pp; sub.n_pipe_profiles = 1; sub.n_max_pipe_profiles = 1;
			for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) sub.qsize[i] = qsize;
			if (rte_sched_subport_config(port, s, &sub, 0)) { fprintf(stderr, "subport_config failed\n"); return 1; }
			for (uint32_t p = 0; p < npipe; p++)
				if (rte_sched_pipe_config(port, s, p, 0)) { fprintf(stderr, "pipe_config failed\n"); return 1; }
		}
	}

	struct rte_mbuf *b[256];
	double hz = rte_get_tsc_hz(), ve[64], vd[64], vt[64];
	uint64_t lost = 0;
#define MARK(m) do { uint32_t s_ = nsub > 1 ? rnd() % nsub : 0, p_ = rnd() % npipe, t_ = RTE_SCHED_TRAFFIC_CLASS_BE, q_ = 0; \
	if (nq == 4) q_ = rnd() & 3; else if (nq == 13) t_ = rnd() % 13; else if (nq == 16) { t_ = rnd() & 15; if (t_ >= 12) { q_ = t_ - 12; t_ = 12; } } \
	(m)->pkt_len = length(); \
	rte_sched_port_pkt_write(port, (m), s_, p_, t_, q_, RTE_COLOR_GREEN); } while (0)

	for (uint64_t i = 0; i < pop; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(mp);
		m->data_len = 0;
		MARK(m);
		rte_sched_port_enqueue(port, &m, 1);
	}
	uint64_t inuse = rte_mempool_in_use_count(mp);
	for (int r = -1; r < runs; r++) {	/* run -1 is a warm-up */
		uint64_t ce = 0, cd = 0, n = 0, empty = 0;
		for (long k = 0; k < rounds; k++) {
			uint64_t t0 = rte_rdtsc();
			int got = rte_sched_port_dequeue(port, b, burst);
			uint64_t t1 = rte_rdtsc();
			cd += t1 - t0;
			if (got < (int)burst) empty++;
			for (int i = 0; i < got; i++) MARK(b[i]);
			t0 = rte_rdtsc();
			if (got) { int e = rte_sched_port_enqueue(port, b, got); lost += got - e; }
			t1 = rte_rdtsc();
			ce += t1 - t0;
			n += got;
			while (lost) {	/* replace dropped packets so that the population stays */
				struct rte_mbuf *m = rte_pktmbuf_alloc(mp); MARK(m);
				if (rte_sched_port_enqueue(port, &m, 1) == 1) lost--;
			}
		}
		if (r >= 0) { ve[r] = ce / hz * 1e9 / n; vd[r] = cd / hz * 1e9 / n; vt[r] = ve[r] + vd[r]; }
		if (r == runs - 1)
			fprintf(stderr, "# population %" PRIu64 " short bursts %" PRIu64 "/%ld packets %" PRIu64 "\n", inuse, empty, rounds, n);
	}
	qsort(ve, runs, 8, cmpd); qsort(vd, runs, 8, cmpd); qsort(vt, runs, 8, cmpd);
	printf("sub=%u pipes=%u queues/pipe=%u per_q=%g: enq %.2f deq %.2f sum %.2f ns/pkt\n",
	       nsub, npipe, nq, perq, ve[runs/2], vd[runs/2], vt[runs/2]);
	return 0;
}
