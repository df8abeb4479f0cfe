/* Tests the calls of the runtime for kernels on machines without a GPU (tests/hostcuda): memory,
   streams, graphs and failures, as with a device and its driver. */
#include "hostcuda_testing.h"
#include <math.h>

/* ---- Memory ---- */

static void ranges_are_checked(void **) {
    char host[300] = {0}, *pinned;
    char *at = (char *)device_memory(300);
    assert_cuda(cudaHostAlloc(&pinned, 300, cudaHostAllocMapped));
    assert_cuda(cudaMemcpy(at, host, 300, cudaMemcpyHostToDevice));
    assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
    assert_cuda(cudaMemcpy(at + 299, pinned + 299, 1, cudaMemcpyHostToDevice));
    assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
    assert_error(cudaErrorInvalidValue, cudaMemcpy(at + 1, host, 300, cudaMemcpyHostToDevice));
    assert_error(cudaErrorInvalidValue, cudaMemcpy(at, pinned + 10, 291, cudaMemcpyHostToDevice));
    assert_error(cudaErrorInvalidValue, cudaMemcpy(host, host + 9, 9, cudaMemcpyHostToDevice));
    assert_error(cudaErrorInvalidValue, cudaMemcpy(at, host, 9, cudaMemcpyDeviceToHost));
    assert_error(cudaErrorInvalidValue, cudaMemset(at, 0, 301));
    assert_error(cudaErrorInvalidValue, cudaMemset(host, 0, 1));
    assert_error(cudaErrorInvalidValue, cudaFree(at + 4));
    assert_error(cudaErrorInvalidValue, cudaFree(pinned));
    assert_error(cudaErrorInvalidValue, cudaFreeHost(at));
    assert_cuda(cudaMemcpy2D(at, 100, host, 30, 20, 3, cudaMemcpyHostToDevice));
    assert_error(cudaErrorInvalidValue,
                 cudaMemcpy2D(at, 100, host, 30, 20, 4, cudaMemcpyHostToDevice));
    assert_cuda(cudaFree(at));
    assert_error(cudaErrorInvalidValue, cudaMemset(at, 0, 1));
    assert_cuda(cudaFreeHost(pinned));
}

static void copies_of_rows_leave_the_rest_alone(void **) {
    char host[60], back[60];
    for (int i = 0; i < 60; ++i) {
        host[i] = (char)i;
    }
    char *at = (char *)device_memory(60);
    assert_cuda(cudaMemset(at, 7, 60));
    assert_cuda(cudaMemcpy2D(at, 20, host, 10, 5, 3, cudaMemcpyHostToDevice));
    assert_cuda(cudaMemcpy(back, at, 60, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 60; ++i) {
        assert_int_equal(back[i], i % 20 < 5 ? host[i / 20 * 10 + i % 20] : 7);
    }
}

/* ---- Streams ---- */

static __global__ void add(unsigned *at, unsigned value) {
    *at += value;
}

/* A first launch. */
static void load_add() {
    struct cudaFuncAttributes attributes;
    assert_cuda(cudaFuncGetAttributes(&attributes, (const void *)add));
}

static cudaStream_t new_stream() {
    cudaStream_t stream;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void nothing_is_done_before_somebody_waits(void **) {
    unsigned *pinned;
    unsigned *at = (unsigned *)device_memory(sizeof *at);
    assert_cuda(cudaMallocHost(&pinned, sizeof *pinned));
    cudaLaunchConfig_t config = shape(1, 1, 0);
    config.stream = new_stream();
    *pinned = 5;
    assert_cuda(cudaMemcpyAsync(at, pinned, sizeof *at, cudaMemcpyHostToDevice, config.stream));
    assert_cuda(cudaLaunchKernelEx(&config, add, at, 2u));
    assert_cuda(cudaMemcpyAsync(pinned, at, sizeof *at, cudaMemcpyDeviceToHost, config.stream));
    assert_int_equal(*pinned, 5);
    assert_error(cudaErrorNotReady, cudaStreamQuery(config.stream));
    assert_int_equal(*pinned, 5);
    assert_cuda(cudaStreamSynchronize(config.stream));
    assert_int_equal(*pinned, 7);
    assert_cuda(cudaStreamQuery(config.stream));

    unsigned unpinned = 30; /* is copied at once */
    assert_cuda(cudaMemcpyAsync(at, &unpinned, sizeof *at, cudaMemcpyHostToDevice, config.stream));
    unpinned = 0;
    assert_cuda(cudaMemcpyAsync(pinned, at, sizeof *at, cudaMemcpyDeviceToHost, config.stream));
    assert_cuda(cudaStreamDestroy(config.stream));
    assert_int_equal(*pinned, 30);
    assert_error(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(config.stream));
}

static void events_order_streams(void **) {
    for (bool waits : {true, false}) {
        with("HOSTCUDA_SEED", NULL);
        unsigned *pinned, zero = 0;
        unsigned *at = (unsigned *)device_memory(sizeof *at);
        assert_cuda(cudaMallocHost(&pinned, sizeof *pinned));
        assert_cuda(cudaMemcpy(at, &zero, sizeof zero, cudaMemcpyHostToDevice));
        assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
        cudaStream_t first = new_stream(), second = new_stream();
        cudaEvent_t done, seen;
        assert_cuda(cudaEventCreate(&done));
        assert_cuda(cudaEventCreateWithFlags(&seen, cudaEventDisableTiming));
        cudaLaunchConfig_t config = shape(1, 1, 0);
        config.stream = first;
        assert_cuda(cudaLaunchKernelEx(&config, add, at, 9u));
        assert_cuda(cudaEventRecord(done, first));
        if (waits) {
            assert_cuda(cudaStreamWaitEvent(second, done));
        }
        assert_cuda(cudaMemcpyAsync(pinned, at, sizeof *at, cudaMemcpyDeviceToHost, second));
        assert_cuda(cudaEventRecord(seen, second));
        assert_cuda(cudaEventSynchronize(seen));
        assert_int_equal(*pinned, waits ? 9 : 0);
        assert_error(cudaSuccess, cudaEventQuery(seen));
        float milliseconds;
        assert_error(cudaErrorInvalidResourceHandle,
                     cudaEventElapsedTime(&milliseconds, done, seen));
        assert_cuda(cudaEventDestroy(done));
        assert_cuda(cudaEventDestroy(seen));
    }
}

static void graphs_replay_what_was_captured(void **) {
    unsigned *pinned, zero = 0, *at = (unsigned *)device_memory(sizeof *at);
    assert_cuda(cudaMallocHost(&pinned, sizeof *pinned));
    assert_cuda(cudaMemcpy(at, &zero, sizeof zero, cudaMemcpyHostToDevice));
    assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
    cudaLaunchConfig_t config = shape(1, 1, 0);
    config.stream = new_stream();
    load_add();
    assert_cuda(cudaStreamBeginCapture(config.stream, cudaStreamCaptureModeGlobal));
    assert_cuda(cudaLaunchKernelEx(&config, add, at, 3u));
    assert_cuda(cudaLaunchKernelEx(&config, add, at, 1u));
    assert_cuda(cudaMemcpyAsync(pinned, at, sizeof *at, cudaMemcpyDeviceToHost, config.stream));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    size_t nodes;
    assert_cuda(cudaStreamEndCapture(config.stream, &graph));
    assert_cuda(cudaGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3);
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamSynchronize(config.stream));
    assert_true(isnan(__uint_as_float(*pinned))); /* only captured */
    for (int i = 0; i < 10; ++i) {
        assert_cuda(cudaGraphLaunch(executable, config.stream));
    }
    assert_cuda(cudaGraphExecDestroy(executable)); /* the launch still runs */
    assert_cuda(cudaStreamSynchronize(config.stream));
    assert_int_equal(*pinned, 40);
    assert_error(cudaErrorInvalidValue, cudaGraphLaunch(executable, config.stream));
}

static void captures_refuse_what_cannot_be_captured(void **) {
    void *memory;
    cudaGraph_t graph;
    cudaStream_t stream = new_stream(), other = new_stream();
    cudaEvent_t event;
    assert_cuda(cudaEventCreate(&event));

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_error(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    assert_error(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_error(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 4));
    assert_error(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));

    cudaLaunchConfig_t config = shape(1, 1, 0);
    config.stream = stream;
    for (bool known : {false, true}) {
        if (known) {
            load_add();
        }
        assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        cudaError_t launched = cudaLaunchKernelEx(&config, add, (unsigned *)nullptr, 1u);
        assert_int_equal(launched, known ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
        cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        assert_int_equal(ended, known ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    }

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_cuda(cudaMalloc(&memory, 4));
    assert_cuda(cudaStreamSynchronize(other));
    assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
    assert_cuda(cudaEventRecord(event, stream));
    assert_cuda(cudaStreamWaitEvent(other, event));
    assert_cuda(cudaMemsetAsync(memory, 1, 4, other));
    assert_error(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
    assert_error(cudaErrorCapturedEvent, cudaEventSynchronize(event));
}

/* Two branches of a graph, joined: in every order that the graph allows, and in no other. */
static void branches_of_graphs_meet(void **) {
    for (const char *seed : {"0", "1", "2", "3"}) {
        with("HOSTCUDA_SEED", seed);
        unsigned zero = 0, sum = 0, *at = (unsigned *)device_memory(2 * sizeof *at);
        assert_cuda(cudaMemcpy(at, &zero, sizeof zero, cudaMemcpyHostToDevice));
        assert_cuda(cudaDeviceSynchronize()); /* the copy may still be running */
        cudaStream_t trunk = new_stream(), branch = new_stream();
        cudaEvent_t fork, joint;
        assert_cuda(cudaEventCreate(&fork));
        assert_cuda(cudaEventCreate(&joint));
        cudaLaunchConfig_t config = shape(1, 1, 0);
        load_add();
        assert_cuda(cudaStreamBeginCapture(trunk, cudaStreamCaptureModeThreadLocal));
        assert_cuda(cudaEventRecord(fork, trunk));
        assert_cuda(cudaStreamWaitEvent(branch, fork));
        config.stream = branch;
        assert_cuda(cudaLaunchKernelEx(&config, add, at, 20u));
        config.stream = trunk;
        assert_cuda(cudaLaunchKernelEx(&config, add, at, 1u));
        assert_cuda(cudaEventRecord(joint, branch));
        assert_cuda(cudaStreamWaitEvent(trunk, joint));
        assert_cuda(cudaMemcpyAsync(at + 1, at, sizeof *at, cudaMemcpyDeviceToDevice, trunk));
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        assert_cuda(cudaStreamEndCapture(trunk, &graph));
        assert_cuda(cudaGraphInstantiate(&executable, graph));
        assert_cuda(cudaGraphLaunch(executable, trunk));
        assert_cuda(cudaStreamSynchronize(trunk));
        assert_cuda(cudaMemcpy(&sum, at + 1, sizeof sum, cudaMemcpyDeviceToHost));
        assert_int_equal(sum, 21);
    }
}

/* ---- Devices and failures ---- */

static __global__ void nothing() {
}

static void devices_are_as_the_environment_says(void **) {
    int count;
    assert_cuda(cudaGetDeviceCount(&count));
    assert_int_equal(count, 1);
    assert_error(cudaErrorInvalidDevice, cudaSetDevice(1));

    with("HOSTCUDA_DEVICES", "0");
    assert_error(cudaErrorNoDevice, cudaGetDeviceCount(&count));
    assert_int_equal(count, 0);

    with("HOSTCUDA_DEVICES", "2");
    assert_cuda(cudaSetDevice(1));

    setenv("HOSTCUDA_DRIVER", "11040", 1);
    with("HOSTCUDA_DEVICES", NULL);
    assert_error(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
    assert_cuda(cudaDriverGetVersion(&count));
    assert_int_equal(count, 11040);

    setenv("HOSTCUDA_MEMORY", "10000", 1);
    with("HOSTCUDA_DRIVER", NULL);
    size_t free_bytes, total;
    void *memory;
    assert_cuda(cudaMalloc(&memory, 6000));
    assert_error(cudaErrorMemoryAllocation, cudaMalloc(&memory, 6000));
    assert_null(memory);
    assert_cuda(cudaMemGetInfo(&free_bytes, &total));
    assert_int_equal(total, 10000);
    assert_in_range(free_bytes, 3000, 4000);

    setenv("HOSTCUDA_SMS", "20", 1);
    with("HOSTCUDA_MEMORY", NULL);
    cudaDeviceProp properties;
    assert_cuda(cudaGetDeviceProperties(&properties, 0));
    assert_int_equal(properties.multiProcessorCount, 20);
    assert_string_equal(properties.name, "hostcuda (no GPU)");
}

static void failures_come_where_they_are_asked_for(void **) {
    void *memory;
    with("HOSTCUDA_FAIL", "cudaMalloc:2,cudaDeviceSynchronize:1:cudaErrorECCUncorrectable");
    assert_cuda(cudaMalloc(&memory, 4));
    assert_error(cudaErrorMemoryAllocation, cudaMalloc(&memory, 4));
    assert_error(cudaErrorMemoryAllocation, cudaGetLastError());
    assert_cuda(cudaGetLastError());
    assert_cuda(cudaMalloc(&memory, 4));
    assert_error(cudaErrorECCUncorrectable, cudaDeviceSynchronize());
    assert_error(cudaErrorECCUncorrectable, cudaMalloc(&memory, 4)); /* the device is lost */
    assert_error(cudaErrorECCUncorrectable, cudaGetLastError());

    with("HOSTCUDA_FAIL", "cudaLaunchKernelEx:1:cudaErrorLaunchOutOfResources");
    const cudaLaunchConfig_t config = shape(1, 1, 0);
    assert_error(cudaErrorLaunchOutOfResources, cudaLaunchKernelEx(&config, nothing));
    assert_cuda(cudaLaunchKernelEx(&config, nothing));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ranges_are_checked, fresh),
        cmocka_unit_test_setup(copies_of_rows_leave_the_rest_alone, fresh),
        cmocka_unit_test_setup(nothing_is_done_before_somebody_waits, fresh),
        cmocka_unit_test_setup(events_order_streams, fresh),
        cmocka_unit_test_setup(graphs_replay_what_was_captured, fresh),
        cmocka_unit_test_setup(captures_refuse_what_cannot_be_captured, fresh),
        cmocka_unit_test_setup(branches_of_graphs_meet, fresh),
        cmocka_unit_test_setup(devices_are_as_the_environment_says, fresh),
        cmocka_unit_test_setup(failures_come_where_they_are_asked_for, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
