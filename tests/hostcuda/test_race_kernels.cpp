/* Tests the race detector (race.h) on small kernels: correct idioms are silent, and each of them
   without one of its parts is reported, in any order of blocks and threads. */
#include "hostcuda_testing.h"

#include "count.h"
#include "race.h"

extern __shared__ __align__(16) float shared_memory[];

namespace {

constexpr unsigned BLOCKS = 3, THREADS = 64, LAST = BLOCKS - 1;
constexpr unsigned ALL = 0xffffffffu;
const char *const SEEDS[] = {"0", "1", "2", "3"};

struct numbers {
    int *device, *pinned;
    unsigned *ticket;
    cudaStream_t first, second;
    cudaEvent_t event;
};

using idea = void (*)(const numbers &);

/* Plays it in each order; returns whether a race was reported, and checks that all orders agree. */
bool races(idea play) {
    int found = 0;
    for (const char *seed : SEEDS) {
        with("HOSTCUDA_SEED", seed);
        numbers n;
        n.device = (int *)device_memory(BLOCKS * THREADS * sizeof *n.device);
        n.ticket = (unsigned *)device_memory(sizeof *n.ticket);
        assert_cuda(cudaHostAlloc(&n.pinned, THREADS * sizeof *n.pinned, cudaHostAllocMapped));
        assert_cuda(cudaMemset(n.ticket, 0, sizeof *n.ticket));
        assert_cuda(cudaStreamCreateWithFlags(&n.first, cudaStreamNonBlocking));
        assert_cuda(cudaStreamCreateWithFlags(&n.second, cudaStreamNonBlocking));
        assert_cuda(cudaEventCreate(&n.event));
        assert_cuda(cudaDeviceSynchronize());
        play(n);
        const cudaError_t ended = cudaDeviceSynchronize();
        const bool told = reported("race in ");
        assert_int_equal(told, ended == cudaErrorLaunchFailure);
        found += told;
    }
    assert_true(found == 0 || found == (int)(sizeof SEEDS / sizeof *SEEDS));
    with("HOSTCUDA_SEED", nullptr);
    return found > 0;
}

template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, unsigned blocks, void (*kernel)(Parameters...),
            Arguments... arguments) {
    cudaLaunchConfig_t config = shape(blocks, THREADS, THREADS * sizeof(int));
    config.stream = stream;
    cudaLaunchKernelEx(&config, kernel, arguments...);
}

int *of_block() {
    return (int *)shared_memory;
}

/* ---- In a block ---- */

/* Each thread writes a number and reads the one `away` further on. */
template <bool BARRIER> __global__ void exchange(int *out, unsigned away) {
    of_block()[threadIdx.x] = (int)threadIdx.x;
    if (BARRIER) {
        __syncthreads();
    }
    out[blockIdx.x * THREADS + threadIdx.x] = of_block()[(threadIdx.x + away) % THREADS];
}

template <bool BARRIER> void exchanged(const numbers &n) {
    launch(n.first, BLOCKS, exchange<BARRIER>, n.device, 33u);
}

template <bool BARRIER> void exchanged_in_a_warp(const numbers &n) {
    launch(n.first, BLOCKS, exchange<BARRIER>, n.device, 1u);
}

/* The same number twice: the second must not be written before all have read the first. */
template <bool BARRIER> __global__ void reuse(int *out) {
    for (int round = 0; round < 2; ++round) {
        if (threadIdx.x == 0) {
            of_block()[0] = round;
        }
        __syncthreads();
        out[blockIdx.x * THREADS + threadIdx.x] = of_block()[0];
        if (BARRIER) {
            __syncthreads();
        }
    }
}

template <bool BARRIER> void reused(const numbers &n) {
    launch(n.first, BLOCKS, reuse<BARRIER>, n.device);
}

/* ---- In a warp ---- */

enum class between { nothing, shuffle, vote, syncwarp, half_warps, own_half };

template <between WHAT> __global__ void pass_on(int *out) {
    const unsigned lane = threadIdx.x % 32, half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int *mine = of_block() + threadIdx.x / 32 * 32;
    mine[lane] = (int)lane;
    switch (WHAT) {
    case between::nothing:
        break;
    case between::shuffle:
        __shfl_xor_sync(ALL, lane, 1);
        break;
    case between::vote:
        __any_sync(ALL, 1);
        break;
    case between::syncwarp:
        __syncwarp();
        break;
    case between::half_warps:
    case between::own_half:
        __syncwarp(half);
        break;
    }
    const unsigned from = WHAT == between::own_half ? (lane & 16) + (lane + 1) % 16 : lane ^ 16;
    out[blockIdx.x * THREADS + threadIdx.x] = mine[from];
}

template <between WHAT> void passed_on(const numbers &n) {
    launch(n.first, BLOCKS, pass_on<WHAT>, n.device);
}

/* A warp barrier does not order different warps. */
__global__ void beyond_the_warp(int *out) {
    of_block()[threadIdx.x] = (int)threadIdx.x;
    __syncwarp();
    out[blockIdx.x * THREADS + threadIdx.x] = of_block()[threadIdx.x ^ 32];
}

void passed_beyond(const numbers &n) {
    launch(n.first, BLOCKS, beyond_the_warp, n.device);
}

/* ---- Between blocks ---- */

/* The last block adds up all results. Fences: 1 of every thread before the barrier and the
   count, 2 of thread 0 between them, 4 of every thread after the count's barrier, 8 of thread 0
   before it; 16: the count is not atomic. */
template <int FENCES> __global__ void add_up(int *numbers, unsigned *ticket) {
    unsigned *taken = (unsigned *)shared_memory;
    numbers[blockIdx.x * THREADS + threadIdx.x] = (int)threadIdx.x;
    if (FENCES & 1) {
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (FENCES & 2) {
            __threadfence();
        }
        if (FENCES & 16) {
            *taken = *ticket;
            *ticket = *taken == LAST ? 0 : *taken + 1;
        } else {
            *taken = atomicInc(ticket, LAST);
        }
        if (FENCES & 8) {
            __threadfence();
        }
    }
    __syncthreads();
    if (*taken != LAST) {
        return;
    }
    if (FENCES & 4) {
        __threadfence();
    }
    int sum = 0;
    for (unsigned block = 0; block < BLOCKS; ++block) {
        sum += numbers[block * THREADS + (threadIdx.x + 1) % THREADS];
    }
    __syncthreads();
    numbers[threadIdx.x] = sum;
}

template <int FENCES> void added_up(const numbers &n) {
    launch(n.first, BLOCKS, add_up<FENCES>, n.device, n.ticket);
    launch(n.first, BLOCKS, add_up<FENCES>, n.device, n.ticket);
}

/* Block `writer` writes what block `reader` reads, or writes; in the order of blocks or against
   it. */
__global__ void meet(int *number, unsigned writer, unsigned other, bool read, int *out) {
    if (threadIdx.x == 0 && blockIdx.x == writer) {
        number[0] = 1;
    }
    if (threadIdx.x == 0 && blockIdx.x == other) {
        if (read) {
            out[0] = number[0];
        } else {
            number[0] = 2;
        }
    }
}

template <unsigned WRITER, unsigned OTHER, bool READ> void met(const numbers &n) {
    launch(n.first, BLOCKS, meet, n.device, WRITER, OTHER, READ, n.device + 1);
}

template <bool ATOMIC> __global__ void count(unsigned *ticket) {
    if (ATOMIC || blockIdx.x > 0) {
        atomicAdd(ticket, 1u);
    } else if (threadIdx.x == 0) {
        *ticket += 1;
    }
}

template <bool ATOMIC> void counted(const numbers &n) {
    launch(n.first, BLOCKS, count<ATOMIC>, n.ticket);
}

/* Two rounds, with the grid's barrier between them. */
template <bool BARRIER> __global__ void take_turns(int *numbers) {
    numbers[blockIdx.x * THREADS + threadIdx.x] = 1;
    if (BARRIER) {
        cooperative_groups::this_grid().sync();
    } else {
        __syncthreads();
    }
    if (numbers[(blockIdx.x + 1) % BLOCKS * THREADS + threadIdx.x] == 2) {
        __trap();
    }
}

template <bool BARRIER> void took_turns(const numbers &n) {
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = shape(BLOCKS, THREADS, 0);
    config.stream = n.first;
    config.attrs = &together;
    config.numAttrs = 1;
    cudaMemset(n.device, 0, BLOCKS * THREADS * sizeof *n.device);
    cudaDeviceSynchronize();
    cudaLaunchKernelEx(&config, take_turns<BARRIER>, n.device);
}

/* ---- In a cluster ---- */

void launch_gang(const numbers &n, cudaLaunchAttributeID kind, void (*kernel)(int *, unsigned *)) {
    cudaLaunchAttribute gang = {};
    gang.id = kind;
    if (kind == cudaLaunchAttributeCooperative) {
        gang.val.cooperative = 1;
    } else {
        gang.val.clusterDim = {BLOCKS, 1, 1};
    }
    cudaLaunchConfig_t config = shape(BLOCKS, THREADS, 2 * THREADS * sizeof(int));
    config.stream = n.first;
    config.attrs = &gang;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, n.device, n.ticket);
}

int *of_neighbour(int *own) {
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    return cluster.map_shared_rank(own, (cluster.block_rank() + 1) % BLOCKS);
}

/* Only a barrier of the cluster orders blocks. */
void sync(bool cluster) {
    if (cluster) {
        cooperative_groups::this_cluster().sync();
    } else {
        __syncthreads();
    }
}

/* Each block writes to its neighbour, which reads. Barriers: 1 before the write, since the
   neighbour may not have begun; 2 after it. */
template <int BARRIERS> __global__ void write_to_neighbour(int *out, unsigned *) {
    sync(BARRIERS & 1);
    of_neighbour(of_block())[threadIdx.x] = (int)threadIdx.x;
    sync(BARRIERS & 2);
    out[blockIdx.x * THREADS + threadIdx.x] = of_block()[threadIdx.x];
}

template <int BARRIERS> void written_to_neighbour(const numbers &n) {
    launch_gang(n, cudaLaunchAttributeClusterDimension, write_to_neighbour<BARRIERS>);
}

/* A block that ends has no shared memory, whether others read it or write to it. */
template <bool WRITE, bool BARRIER> __global__ void use_the_last_time(int *out, unsigned *) {
    of_block()[threadIdx.x] = (int)threadIdx.x;
    sync(true);
    int *theirs = of_neighbour(of_block());
    if (WRITE) {
        theirs[threadIdx.x] = 1;
    } else {
        out[blockIdx.x * THREADS + threadIdx.x] = theirs[threadIdx.x];
    }
    if (BARRIER) {
        sync(true);
    }
}

template <bool WRITE, bool BARRIER> void used_the_last_time(const numbers &n) {
    launch_gang(n, cudaLaunchAttributeClusterDimension, use_the_last_time<WRITE, BARRIER>);
}

/* Rounds in turns with BUFFERS buffers; a single one needs a second barrier. */
template <unsigned BUFFERS, bool SECOND> __global__ void pass_around(int *out, unsigned *) {
    sync(true);
    for (unsigned round = 0; round < 4; ++round) {
        int *buffer = of_block() + round % BUFFERS * THREADS;
        of_neighbour(buffer)[threadIdx.x] = (int)round;
        sync(true);
        out[blockIdx.x * THREADS + threadIdx.x] = buffer[(threadIdx.x + 1) % THREADS];
        sync(SECOND);
    }
}

template <unsigned BUFFERS, bool SECOND> void passed_around(const numbers &n) {
    launch_gang(n, cudaLaunchAttributeClusterDimension, pass_around<BUFFERS, SECOND>);
}

/* Counts in the first block's shared memory; a plain addition by others is a race. */
template <bool ATOMIC> __global__ void count_at_first(int *out, unsigned *) {
    unsigned *first = cooperative_groups::this_cluster().map_shared_rank((unsigned *)of_block(), 0);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *first = 0;
    }
    sync(true);
    if (ATOMIC) {
        atomicAdd(first, 1u);
    } else {
        *first += 1;
    }
    sync(true);
    if (blockIdx.x == 0) {
        out[threadIdx.x] = of_block()[0];
    }
}

template <bool ATOMIC> void counted_at_first(const numbers &n) {
    launch_gang(n, cudaLaunchAttributeClusterDimension, count_at_first<ATOMIC>);
}

/* A barrier of the grid's blocks by a counter in memory, of which the highest bit is the phase.
   1: a fence before the count, 2: one after the wait, 4: waits until the phase changes, and not
   for any change. */
template <int PARTS> void meet_by_counter(unsigned *arrived) {
    const unsigned phase = 1u << 31, awaited = PARTS & 4 ? phase : ~0u;
    __syncthreads();
    if (threadIdx.x == 0) {
        if (PARTS & 1) {
            __threadfence();
        }
        const unsigned before = atomicAdd(arrived, blockIdx.x ? 1u : phase - LAST);
        for (unsigned polls = 0; !((before ^ *(volatile unsigned *)arrived) & awaited);
             __nanosleep(20)) {
            if (++polls == 1u << 20) {
                __trap();
            }
        }
        if (PARTS & 2) {
            __threadfence();
        }
    }
    __syncthreads();
}

template <int PARTS> __global__ void meet_twice(int *numbers, unsigned *ticket) {
    int *own = numbers + blockIdx.x * THREADS + threadIdx.x;
    *own = 1;
    meet_by_counter<PARTS>(ticket);
    if (numbers[(blockIdx.x + 1) % BLOCKS * THREADS + threadIdx.x] < 0) {
        __trap();
    }
    meet_by_counter<PARTS>(ticket);
    *own = 2;
}

template <int PARTS> void met_twice(const numbers &n) {
    cudaMemset(n.device, 0, BLOCKS * THREADS * sizeof *n.device);
    cudaDeviceSynchronize();
    launch_gang(n, cudaLaunchAttributeCooperative, meet_twice<PARTS>);
}

/* ---- Between launches, and with the host ---- */

__global__ void set(int *numbers, int value) {
    numbers[blockIdx.x * THREADS + threadIdx.x] = value;
}

void in_one_stream(const numbers &n) {
    launch(n.first, 1, set, n.device, 1);
    launch(n.first, 1, set, n.device, 2);
}

void in_two_streams(const numbers &n) {
    launch(n.first, 1, set, n.device, 1);
    launch(n.second, 1, set, n.device, 2);
}

void with_an_event(const numbers &n) {
    launch(n.first, 1, set, n.device, 1);
    cudaEventRecord(n.event, n.first);
    cudaStreamWaitEvent(n.second, n.event);
    launch(n.second, 1, set, n.device, 2);
}

void with_an_early_event(const numbers &n) {
    cudaEventRecord(n.event, n.first);
    launch(n.first, 1, set, n.device, 1);
    cudaStreamWaitEvent(n.second, n.event);
    launch(n.second, 1, set, n.device, 2);
}

void with_a_wait(const numbers &n) {
    launch(n.first, 1, set, n.device, 1);
    cudaStreamSynchronize(n.first);
    launch(n.second, 1, set, n.device, 2);
}

template <bool WAIT> void read_by_the_host(const numbers &n) {
    launch(n.first, 1, set, n.pinned, 1);
    if (WAIT) {
        assert_cuda(cudaStreamSynchronize(n.first));
        assert_int_equal(n.pinned[3], 1);
    } else {
        volatile int seen = n.pinned[3];
        (void)seen;
    }
}

/* The host writes the next numbers while a copy of the last ones may be running. */
template <bool WAIT> void written_by_the_host(const numbers &n) {
    for (int i = 0; i < 2; ++i) {
        for (unsigned k = 0; k < THREADS; ++k) {
            n.pinned[k] = i;
        }
        cudaMemcpyAsync(n.device, n.pinned, THREADS * sizeof *n.pinned, cudaMemcpyHostToDevice,
                        n.first);
        if (WAIT) {
            cudaStreamSynchronize(n.first);
        }
    }
}

/* ---- The tests ---- */

void right_ones_are_silent(void **) {
    for (idea play : {exchanged<true>,
                      exchanged_in_a_warp<true>,
                      reused<true>,
                      passed_on<between::syncwarp>,
                      passed_on<between::own_half>,
                      added_up<1 + 4>,
                      added_up<2 + 4>,
                      added_up<2 + 8>,
                      added_up<1 + 8>,
                      met<0, 0, true>,
                      counted<true>,
                      took_turns<true>,
                      in_one_stream,
                      with_an_event,
                      with_a_wait,
                      read_by_the_host<true>,
                      written_by_the_host<true>,
                      written_to_neighbour<1 + 2>,
                      used_the_last_time<false, true>,
                      used_the_last_time<true, true>,
                      passed_around<2, false>,
                      passed_around<1, true>,
                      counted_at_first<true>,
                      met_twice<1 + 2 + 4>}) {
        assert_false(races(play));
    }
}

void races_in_a_block_are_found(void **) {
    for (idea play : {exchanged<false>, exchanged_in_a_warp<false>, reused<false>, passed_beyond,
                      passed_on<between::nothing>, passed_on<between::half_warps>}) {
        assert_true(races(play));
    }
}

void shuffles_and_votes_are_no_barrier(void **) {
    assert_true(races(passed_on<between::shuffle>));
    assert_true(races(passed_on<between::vote>));
}

void races_between_blocks_are_found(void **) {
    for (idea play :
         {met<0, 1, true>, met<1, 0, true>, met<0, 1, false>, counted<false>, took_turns<false>}) {
        assert_true(races(play));
    }
}

void missing_fences_are_found(void **) {
    for (idea play :
         {added_up<0>, added_up<1>, added_up<2>, added_up<4>, added_up<8>, added_up<1 + 4 + 16>}) {
        assert_true(races(play));
    }
}

void races_in_a_cluster_are_found(void **) {
    for (idea play : {written_to_neighbour<0>, written_to_neighbour<1>, written_to_neighbour<2>,
                      used_the_last_time<false, false>, used_the_last_time<true, false>,
                      passed_around<1, false>, counted_at_first<false>}) {
        assert_true(races(play));
    }
}

void races_of_an_own_barrier_are_found(void **) {
    for (idea play : {met_twice<2 + 4>, met_twice<1 + 4>, met_twice<1 + 2>}) {
        assert_true(races(play));
    }
}

void races_of_launches_are_found(void **) {
    for (idea play : {in_two_streams, with_an_early_event}) {
        assert_true(races(play));
    }
}

void races_with_the_host_are_found(void **) {
    assert_true(races(read_by_the_host<false>));
    assert_true(races(written_by_the_host<false>));
}

void a_report_says_where(void **) {
    fresh(nullptr);
    int *number = (int *)device_memory(2 * sizeof *number);
    launch(nullptr, BLOCKS, meet, number, 0u, 1u, true, number + 1);
    assert_error(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    assert_true(reported("race in meet on byte 0 of 8 of device memory from "));
    assert_true(reported(": a write by block 0, thread 0 at "));
    assert_true(reported("; a read by block 1, thread 0 at "));
    assert_true(reported("; nothing orders them"));
    fresh(nullptr);
}

__global__ void read_quad(const float *at, float *out) {
    *out = ((const float4 *)at)->x;
}

void read_a_quad_at_an_odd_number() {
    float *at = (float *)device_memory(8 * sizeof *at);
    cudaLaunchConfig_t config = shape(1, 1, 0);
    assert_cuda(cudaMemset(at, 0, 8 * sizeof *at));
    assert_cuda(cudaLaunchKernelEx(&config, read_quad, at, at + 7));
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaLaunchKernelEx(&config, read_quad, at + 1, at + 7));
    cudaDeviceSynchronize();
}

void misaligned_accesses_are_found(void **) {
    const std::string words = last_words(read_a_quad_at_an_odd_number, SIGILL);
    assert_true(words.find("read_quad") != std::string::npos);
    assert_true(words.find("thread (0, 0, 0): misaligned access") != std::string::npos);
}

/* Two barriers of the cluster, and THREADS numbers to each neighbour and back to memory. */
void bytes_and_dependencies_are_counted(void **) {
    fresh(nullptr);
    hostcuda::race::on = false;
    hostcuda::count::on = true;
    numbers n = {};
    n.device = (int *)device_memory(BLOCKS * THREADS * sizeof *n.device);
    written_to_neighbour<1 + 2>(n);
    assert_cuda(cudaDeviceSynchronize());
    assert_true(reported("count write_to_neighbour<3> blocks=3 dependencies=3 device=0+768 "
                         "touched=768 pinned=0+0 shared=768+0 cluster=0+768"));
    hostcuda::count::on = false;
    hostcuda::race::on = true;
    fresh(nullptr);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(right_ones_are_silent),
        cmocka_unit_test(races_in_a_block_are_found),
        cmocka_unit_test(shuffles_and_votes_are_no_barrier),
        cmocka_unit_test(races_between_blocks_are_found),
        cmocka_unit_test(missing_fences_are_found),
        cmocka_unit_test(races_in_a_cluster_are_found),
        cmocka_unit_test(races_of_an_own_barrier_are_found),
        cmocka_unit_test(races_of_launches_are_found),
        cmocka_unit_test(races_with_the_host_are_found),
        cmocka_unit_test(a_report_says_where),
        cmocka_unit_test(misaligned_accesses_are_found),
        cmocka_unit_test(bytes_and_dependencies_are_counted),
    };
    return cmocka_run_group_tests(tests, fresh, fresh);
}
