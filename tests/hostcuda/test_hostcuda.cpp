/* Tests the runtime for kernels on machines without a GPU (tests/hostcuda): kernels compute the
   same as on a device, and it detects what a device does not allow. */
#include "hostcuda_testing.h"
#include <math.h>

#define WHOLE_WARP 0xffffffffu

enum { THREADS = 96, BLOCKS = 6 };

extern __shared__ float shared_memory[];

/* ---- Warps ---- */

enum { WARP_RESULTS = 8 };

static __global__ void warp_results(unsigned *results /* (WARP_RESULTS, 32) */) {
    const unsigned lane = threadIdx.x;
    const double half = __shfl_sync(WHOLE_WARP, lane / 2.0, 31);
    results[0 * 32 + lane] = __shfl_sync(WHOLE_WARP, lane, 5);
    results[1 * 32 + lane] = __shfl_up_sync(WHOLE_WARP, lane, 3);
    results[2 * 32 + lane] = __shfl_down_sync(WHOLE_WARP, lane, 3);
    results[3 * 32 + lane] = __shfl_xor_sync(WHOLE_WARP, lane, 7, 16);
    results[4 * 32 + lane] = __ballot_sync(WHOLE_WARP, lane % 3 == 0);
    results[5 * 32 + lane] = (unsigned)__all_sync(WHOLE_WARP, lane < 32) * 2 +
                             (unsigned)__any_sync(WHOLE_WARP, lane > 31);
    results[6 * 32 + lane] = half == 15.5;
    if (lane < 16) {
        results[7 * 32 + lane] = __shfl_sync(0xffffu, lane, 1, 4);
    } else {
        results[7 * 32 + lane] = __shfl_xor_sync(0xffff0000u, lane, 1);
    }
}

static void warp_collectives_give_what_cuda_says(void **) {
    for (const char *seed : {"0", "1", "7"}) {
        with("HOSTCUDA_SEED", seed);
        unsigned results[WARP_RESULTS][32];
        unsigned *at = (unsigned *)device_memory(sizeof results);
        const cudaLaunchConfig_t config = shape(1, 32, 0);
        assert_cuda(cudaLaunchKernelEx(&config, warp_results, at));
        assert_cuda(cudaMemcpy(results, at, sizeof results, cudaMemcpyDeviceToHost));
        for (unsigned lane = 0; lane < 32; ++lane) {
            assert_int_equal(results[0][lane], 5);
            assert_int_equal(results[1][lane], lane < 3 ? lane : lane - 3);
            assert_int_equal(results[2][lane], lane < 29 ? lane + 3 : lane);
            assert_int_equal(results[3][lane], lane ^ 7);
            assert_int_equal(results[4][lane], 0x49249249);
            assert_int_equal(results[5][lane], 2);
            assert_int_equal(results[6][lane], 1);
            assert_int_equal(results[7][lane], lane < 16 ? lane / 4 * 4 + 1 : lane ^ 1);
        }
    }
}

enum misuse { FOREIGN_LANE, EXITED_LANE, ABSENT_LANE, UNNAMED_SOURCE, TWO_CALLS, TWO_MASKS };

static __global__ void misuse_masks(misuse how) {
    const unsigned lane = threadIdx.x;
    switch (how) {
    case FOREIGN_LANE:
        __syncwarp(0xffff);
        break;
    case EXITED_LANE:
        if (lane != 4) {
            __syncwarp(WHOLE_WARP);
        }
        break;
    case ABSENT_LANE:
        __syncwarp(WHOLE_WARP);
        break;
    case UNNAMED_SOURCE:
        if (lane < 16) {
            __shfl_sync(0xffff, lane, 20);
        }
        break;
    case TWO_CALLS:
        if (lane < 16) {
            __shfl_sync(WHOLE_WARP, lane, 0);
        } else {
            __ballot_sync(WHOLE_WARP, 1);
        }
        break;
    case TWO_MASKS:
        __syncwarp(lane == 0 ? WHOLE_WARP : WHOLE_WARP & ~2u);
        __syncwarp(WHOLE_WARP);
        break;
    }
}

static void misused_masks_are_reported(void **) {
    static const struct {
        misuse how;
        unsigned threads;
        const char *words;
    } cases[] = {
        {FOREIGN_LANE, 32, "does not name it"},
        {EXITED_LANE, 32, "have exited or never were"},
        {ABSENT_LANE, 48, "have exited or never were"},
        {UNNAMED_SOURCE, 32, "reads lane 20, which its mask 0000ffff does not name"},
        {TWO_CALLS, 32, "with one mask"},
        {TWO_MASKS, 32, "does not name it"},
    };
    for (const char *seed : {"0", "3"}) {
        for (const auto &c : cases) {
            with("HOSTCUDA_SEED", seed);
            const cudaLaunchConfig_t config = shape(1, c.threads, 0);
            assert_cuda(cudaLaunchKernelEx(&config, misuse_masks, c.how));
            assert_error(cudaErrorLaunchFailure, cudaDeviceSynchronize());
            assert_true(reported("misuse_masks"));
            /* The schedule decides whether the lane has exited by then. */
            assert_true(reported(c.words) || (c.how == EXITED_LANE && reported("exits while")));
        }
    }
}

/* ---- Blocks ---- */

/* Each block's sums over its threads, through shared memory, with a barrier or without. */
static __global__ void neighbours(const float *x, float *y, bool barrier) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    shared_memory[threadIdx.x] = x[i];
    if (barrier) {
        __syncthreads();
    }
    float sum = 0.0f;
    for (unsigned t = 0; t < blockDim.x; ++t) {
        sum += shared_memory[(threadIdx.x + t) % blockDim.x];
    }
    y[i] = sum;
}

static std::vector<uint32_t> run_neighbours(const char *seed, bool barrier) {
    with("HOSTCUDA_SEED", seed);
    std::vector<float> x(BLOCKS * THREADS);
    for (size_t i = 0; i < x.size(); ++i) {
        x[i] = sinf((float)i);
    }
    const size_t size = x.size() * sizeof(float);
    float *from = (float *)device_memory(size), *to = (float *)device_memory(size);
    assert_cuda(cudaMemcpy(from, x.data(), size, cudaMemcpyHostToDevice));
    assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
    const cudaLaunchConfig_t config = shape(BLOCKS, THREADS, THREADS * sizeof(float));
    assert_cuda(cudaLaunchKernelEx(&config, neighbours, from, to, barrier));
    std::vector<uint32_t> y(x.size());
    assert_cuda(cudaMemcpy(y.data(), to, size, cudaMemcpyDeviceToHost));
    return y;
}

static void correct_kernels_give_the_same_bits_in_every_schedule(void **) {
    const std::vector<uint32_t> natural = run_neighbours("0", true);
    for (const char *seed : {"1", "2", "99"}) {
        assert_true(run_neighbours(seed, true) == natural);
    }
}

static void a_missing_barrier_shows(void **) {
    const std::vector<uint32_t> right = run_neighbours("0", true);
    assert_true(run_neighbours("0", false) != right);
    assert_true(run_neighbours("1", false) != right);
    assert_true(run_neighbours("1", false) != run_neighbours("2", false));
}

static __global__ void lost_barrier(bool exits) {
    if (threadIdx.x < 40) {
        __syncthreads();
    } else if (!exits) {
        for (;;) {
            __nanosleep(100);
        }
    }
}

static __global__ void crossed_barriers() {
    if (threadIdx.x < 32) {
        __syncthreads();
    }
    __syncwarp(threadIdx.x < 32 ? 1u << threadIdx.x : WHOLE_WARP);
    if (threadIdx.x == 40) {
        __syncwarp(3u << 8);
    } else {
        __syncthreads();
    }
}

static void what_would_hang_is_reported(void **) {
    const cudaLaunchConfig_t config = shape(2, 64, 0);
    assert_cuda(cudaLaunchKernelEx(&config, lost_barrier, true));
    assert_error(cudaErrorLaunchFailure, cudaDeviceSynchronize());
    assert_true(reported("exits while 40 threads wait in __syncthreads"));

    with("HOSTCUDA_SEED", NULL);
    assert_cuda(cudaLaunchKernelEx(&config, lost_barrier, false));
    assert_error(cudaErrorLaunchTimeout, cudaDeviceSynchronize());
    assert_true(reported("block (0, 0, 0): 40 threads wait in __syncthreads, called by lost_"));
    assert_true(reported("block (0, 0, 0): 24 threads run"));

    with("HOSTCUDA_SEED", NULL);
    assert_cuda(cudaLaunchKernelEx(&config, crossed_barriers));
    assert_error(cudaErrorLaunchTimeout, cudaDeviceSynchronize());
    assert_true(reported("deadlock"));
    assert_true(reported("1 threads wait in __syncwarp with mask 00000300"));
}

/* ---- Memory ---- */

static __global__ void read_shared(uint32_t *words, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        words[i] = __float_as_uint(shared_memory[i]);
    }
    shared_memory[0] = 1.0f;
}

static void unwritten_memory_is_nan(void **) {
    uint32_t words[4];
    uint32_t *at = (uint32_t *)device_memory(sizeof words);
    assert_cuda(cudaMemcpy(words, at, sizeof words, cudaMemcpyDeviceToHost));
    assert_true(isnan(__uint_as_float(words[3])));
    const cudaLaunchConfig_t config = shape(2, 1, sizeof words);
    assert_cuda(cudaLaunchKernelEx(&config, read_shared, at, (size_t)4));
    assert_cuda(cudaMemcpy(words, at, sizeof words, cudaMemcpyDeviceToHost));
    /* also those of the second block: the first one's memory is gone */
    for (uint32_t word : words) {
        assert_true(isnan(__uint_as_float(word)));
    }
    float *pinned;
    assert_cuda(cudaMallocHost(&pinned, 40));
    assert_true(isnan(pinned[9]));
}

#if !defined(__SANITIZE_ADDRESS__) /* which ends the program at the access */
static __global__ void write_beyond(float *at, size_t index, bool shared) {
    (shared ? shared_memory : at)[index] = 1.0f;
}

static void writes_beyond_are_reported(void **) {
    float *at = (float *)device_memory(40);
    const cudaLaunchConfig_t config = shape(1, 1, 40);
    assert_cuda(cudaLaunchKernelEx(&config, write_beyond, at, (size_t)9, true));
    assert_cuda(cudaLaunchKernelEx(&config, write_beyond, at, (size_t)9, false));
    assert_cuda(cudaDeviceSynchronize());
    assert_cuda(cudaLaunchKernelEx(&config, write_beyond, at, (size_t)10, true));
    assert_error(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    assert_true(reported("wrote shared memory at byte 40, of 40"));

    with("HOSTCUDA_SEED", NULL);
    at = (float *)device_memory(40);
    assert_cuda(cudaLaunchKernelEx(&config, write_beyond, at, (size_t)10, false));
    assert_error(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    assert_true(reported("wrote around 40 bytes of device memory"));
}

static void far_write() {
    const cudaLaunchConfig_t config = shape(1, 2, 0);
    float *at = (float *)device_memory(40);
    cudaLaunchKernelEx(&config, write_beyond, at, (size_t)100000, false);
    cudaDeviceSynchronize();
}

static void reach_from_the_host() {
    *(volatile char *)device_memory(40) = 1;
}

static void bad_accesses_name_their_kernel(void **) {
    const std::string far = last_words(far_write, SIGSEGV);
    assert_true(far.find("write_beyond") != std::string::npos);
    assert_true(far.find("block (0, 0, 0), thread (0, 0, 0): bad access") != std::string::npos);
    assert_true(last_words(reach_from_the_host, SIGSEGV).find("is the device's") !=
                std::string::npos);
}
#endif

/* ---- Launches ---- */

struct arguments {
    char bytes[4096];
};
static __global__ void take(arguments) {
}
static __global__ void take_more(arguments, int) {
}
static __global__ void nothing() {
}

enum { FEW = 96 };
static __global__ void __launch_bounds__(FEW) few() {
}
template <bool MORE> static __global__ void __launch_bounds__(MORE ? 2 * FEW : FEW, 1) either() {
}

static void launch_bounds_are_checked(void **) {
    const struct {
        void (*kernel)();
        unsigned most;
    } known[] = {{few, FEW}, {either<true>, 2 * FEW}, {either<false>, FEW}, {nothing, 1024}};
    for (const auto &k : known) {
        struct cudaFuncAttributes attributes;
        assert_cuda(cudaFuncGetAttributes(&attributes, k.kernel));
        assert_int_equal(attributes.maxThreadsPerBlock, k.most);
        cudaLaunchConfig_t config = shape(1, k.most, 0);
        assert_cuda(cudaLaunchKernelEx(&config, k.kernel));
    }
    cudaLaunchConfig_t config = shape(1, FEW + 1, 0);
    assert_cuda(cudaLaunchKernelEx(&config, either<true>));
    assert_error(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, few));
    assert_true(reported("few") && reported("97 threads, of 96 that are allowed"));
    assert_error(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, either<false>));
    with("HOSTCUDA_THREADS", "64");
    config = shape(1, 65, 0);
    assert_error(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, few));
}

static void streams_belong_to_devices(void **) {
    with("HOSTCUDA_DEVICES", "2");
    cudaLaunchConfig_t config = shape(1, 32, 0);
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaStreamCreate(&config.stream));
    assert_cuda(cudaLaunchKernelEx(&config, nothing));
    assert_cuda(cudaSetDevice(0));
    assert_error(cudaErrorInvalidResourceHandle, cudaLaunchKernelEx(&config, nothing));
}

static void launches_are_checked(void **) {
    cudaLaunchConfig_t config = shape(1, 1024, 48 << 10);
    assert_cuda(cudaLaunchKernelEx(&config, nothing));
    assert_cuda(cudaLaunchKernelEx(&config, take, arguments()));
    assert_error(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, take_more, arguments(), 1));
    config.dynamicSmemBytes += 4;
    assert_error(cudaErrorInvalidValue, cudaLaunchKernelEx(&config, nothing));
    assert_error(cudaErrorInvalidValue,
                 cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (227 << 10) + 1));
    assert_cuda(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)config.dynamicSmemBytes));
    assert_cuda(cudaLaunchKernelEx(&config, nothing));
    config = shape(1, 1025, 0);
    assert_error(cudaErrorInvalidConfiguration, cudaLaunchKernelEx(&config, nothing));
    config = shape(0, 32, 0);
    assert_error(cudaErrorInvalidConfiguration, cudaLaunchKernelEx(&config, nothing));
    assert_cuda(cudaDeviceSynchronize());
}

/* ---- Cooperative grids and clusters ---- */

/* Blocks pass values to their neighbours, in rounds, and keep a count in shared memory. */
static __global__ void pass_on(unsigned *values /* (2, blocks) */, unsigned rounds,
                               unsigned *kept) {
    auto grid = cooperative_groups::this_grid();
    unsigned *count = (unsigned *)shared_memory;
    const unsigned blocks = (unsigned)grid.num_blocks();
    if (threadIdx.x == 0) {
        *count = 0;
        values[blockIdx.x] = blockIdx.x;
    }
    for (unsigned round = 0; round < rounds; ++round) {
        grid.sync();
        if (threadIdx.x == 0) {
            *count += blockIdx.x;
            values[(round + 1) % 2 * blocks + blockIdx.x] =
                values[round % 2 * blocks + (blockIdx.x + 1) % blocks];
        }
    }
    if (threadIdx.x == 0) {
        kept[blockIdx.x] = *count;
    }
}

static void cooperative_grids_wait_for_all_blocks(void **) {
    for (const char *seed : {"0", "5"}) {
        with("HOSTCUDA_SEED", seed);
        unsigned values[2 * BLOCKS], kept[BLOCKS];
        unsigned *at = (unsigned *)device_memory(sizeof values);
        unsigned *counts = (unsigned *)device_memory(sizeof kept);
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
        cudaLaunchConfig_t config = shape(BLOCKS, 64, sizeof(unsigned));
        assert_cuda(cudaLaunchKernelEx(&config, pass_on, at, 4u, counts));
        assert_error(cudaErrorLaunchFailure, cudaDeviceSynchronize());
        assert_true(reported("was not launched as a cooperative one"));

        with("HOSTCUDA_SEED", seed);
        at = (unsigned *)device_memory(sizeof values);
        counts = (unsigned *)device_memory(sizeof kept);
        config.attrs = &attribute;
        config.numAttrs = 1;
        assert_cuda(cudaLaunchKernelEx(&config, pass_on, at, 4u, counts));
        assert_cuda(cudaMemcpy(values, at, sizeof values, cudaMemcpyDeviceToHost));
        assert_cuda(cudaMemcpy(kept, counts, sizeof kept, cudaMemcpyDeviceToHost));
        for (unsigned block = 0; block < BLOCKS; ++block) {
            assert_int_equal(values[block], (block + 4) % BLOCKS);
            assert_int_equal(kept[block], 4 * block);
        }
    }
    with("HOSTCUDA_SMS", "1");
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = shape(3, 1024, 0);
    config.attrs = &attribute;
    config.numAttrs = 1;
    assert_error(cudaErrorCooperativeLaunchTooLarge, cudaLaunchKernelEx(&config, nothing));
}

/* Each block writes its number into the next one's shared memory. */
static __global__ void write_next(unsigned *received) {
    auto cluster = cooperative_groups::this_cluster();
    unsigned *own = (unsigned *)shared_memory;
    const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
    own[0] = 100;
    cluster.sync();
    if (threadIdx.x == 0) {
        cluster.map_shared_rank(own, (rank + 1) % blocks)[0] += blockIdx.x;
    }
    cluster.sync();
    received[blockIdx.x] = own[0];
}

static void clusters_share_their_memory(void **) {
    for (const char *seed : {"0", "4"}) {
        with("HOSTCUDA_SEED", seed);
        unsigned received[8];
        unsigned *at = (unsigned *)device_memory(sizeof received);
        cudaLaunchAttribute attribute = {};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = 4;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = shape(8, 32, sizeof(unsigned));
        config.attrs = &attribute;
        config.numAttrs = 1;
        assert_cuda(cudaLaunchKernelEx(&config, write_next, at));
        assert_cuda(cudaMemcpy(received, at, sizeof received, cudaMemcpyDeviceToHost));
        for (unsigned block = 0; block < 8; ++block) {
            assert_int_equal(received[block], 100 + block / 4 * 4 + (block + 3) % 4);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(warp_collectives_give_what_cuda_says, fresh),
        cmocka_unit_test_setup(misused_masks_are_reported, fresh),
        cmocka_unit_test_setup(correct_kernels_give_the_same_bits_in_every_schedule, fresh),
        cmocka_unit_test_setup(a_missing_barrier_shows, fresh),
        cmocka_unit_test_setup(what_would_hang_is_reported, fresh),
        cmocka_unit_test_setup(unwritten_memory_is_nan, fresh),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test_setup(writes_beyond_are_reported, fresh),
        cmocka_unit_test_setup(bad_accesses_name_their_kernel, fresh),
#endif
        cmocka_unit_test_setup(launch_bounds_are_checked, fresh),
        cmocka_unit_test_setup(streams_belong_to_devices, fresh),
        cmocka_unit_test_setup(launches_are_checked, fresh),
        cmocka_unit_test_setup(cooperative_grids_wait_for_all_blocks, fresh),
        cmocka_unit_test_setup(clusters_share_their_memory, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
