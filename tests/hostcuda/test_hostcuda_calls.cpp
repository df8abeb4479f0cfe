/* Tests the calls of the runtime for kernels on machines without a GPU (tests/hostcuda): memory,
   streams and failures, as with a device and its driver. */
#include "hostcuda_testing.h"

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
        cmocka_unit_test_setup(devices_are_as_the_environment_says, fresh),
        cmocka_unit_test_setup(failures_come_where_they_are_asked_for, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
