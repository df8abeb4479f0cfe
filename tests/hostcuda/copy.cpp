/* Copies and fills: ranges are checked at the call, as in a driver, and bytes move when their
   stream reaches them. */
#include "count.h"
#include "race.h"

using namespace hostcuda;

namespace {

/* Rows of `width` bytes. */
struct rows {
    char *to;
    size_t to_pitch;
    const char *from;
    size_t from_pitch, width, height;
};

size_t extent(size_t pitch, size_t width, size_t height) {
    return height && width ? pitch * (height - 1) + width : 0;
}

void move(const rows &r) {
    for (size_t y = 0; y < r.height; ++y) {
        race::met(r.from + y * r.from_pitch, r.width, race::way::read, nullptr);
        race::met(r.to + y * r.to_pitch, r.width, race::way::write, nullptr);
        memmove(r.to + y * r.to_pitch, r.from + y * r.from_pitch, r.width);
    }
}

cudaMemcpyKind resolve(cudaMemcpyKind kind, const rows &r) {
    if (kind != cudaMemcpyDefault) {
        return kind;
    }
    return is_device(r.to) ? (is_device(r.from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                           : (is_device(r.from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
}

cudaError_t check(const char *function, const rows &r, cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault) {
        return fail(cudaErrorInvalidMemcpyDirection, "%s: kind %d", function, (int)kind);
    }
    if (r.height > 1 && (r.width > r.to_pitch || r.width > r.from_pitch)) {
        return fail(cudaErrorInvalidPitchValue, "%s: rows of %zu bytes, pitches of %zu and %zu",
                    function, r.width, r.to_pitch, r.from_pitch);
    }
    const side to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice
                        ? side::device
                        : side::host;
    const side from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice
                          ? side::device
                          : side::host;
    if (!within(function, to, r.to, extent(r.to_pitch, r.width, r.height)) ||
        !within(function, from, r.from, extent(r.from_pitch, r.width, r.height))) {
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

cudaError_t copy_async(const char *function, rows r, cudaMemcpyKind kind, cudaStream_t stream) {
    kind = resolve(kind, r);
    if (cudaError_t error = check(function, r, kind)) {
        return error;
    }
    const bool unpinned_from = kind == cudaMemcpyHostToDevice && !is_pinned(r.from);
    const bool unpinned_to = kind == cudaMemcpyDeviceToHost && !is_pinned(r.to);
    if (unpinned_from) {
        auto staged = std::make_shared<std::vector<char>>(r.width * r.height);
        move({staged->data(), r.width, r.from, r.from_pitch, r.width, r.height});
        return enqueue(stream, [r, staged] {
            count::copied(r.width * r.height);
            move({r.to, r.to_pitch, staged->data(), r.width, r.width, r.height});
            return cudaSuccess;
        });
    }
    const cudaError_t error = enqueue(stream, [r] {
        count::copied(r.width * r.height);
        move(r);
        return cudaSuccess;
    });
    return error || !unpinned_to ? error : cudaStreamSynchronize(stream);
}

cudaError_t copy(const char *function, rows r, cudaMemcpyKind kind) {
    const cudaError_t error = copy_async(function, r, kind, nullptr);
    /* from pageable memory it may return before the device has the staged bytes */
    const bool staged = kind == cudaMemcpyHostToDevice && !is_pinned(r.from);
    return error || staged ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t fill(const char *function, void *at, int value, size_t size, cudaStream_t stream) {
    if (!within(function, side::device, at, size)) {
        return cudaErrorInvalidValue;
    }
    return enqueue(stream, [at, value, size] {
        race::met(at, size, race::way::write, nullptr);
        memset(at, value, size);
        return cudaSuccess;
    });
}

} // namespace

extern "C" {

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    HOSTCUDA_BEGIN();
    return copy(__func__, {(char *)to, size, (const char *)from, size, size, 1}, kind);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    HOSTCUDA_BEGIN();
    return copy_async(__func__, {(char *)to, size, (const char *)from, size, size, 1}, kind,
                      stream);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind) {
    HOSTCUDA_BEGIN();
    return copy(__func__, {(char *)to, to_pitch, (const char *)from, from_pitch, width, height},
                kind);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream) {
    HOSTCUDA_BEGIN();
    return copy_async(__func__,
                      {(char *)to, to_pitch, (const char *)from, from_pitch, width, height}, kind,
                      stream);
}

/* As on a device, the fill is only enqueued on return. */
cudaError_t cudaMemset(void *at, int value, size_t size) {
    HOSTCUDA_BEGIN();
    return fill(__func__, at, value, size, nullptr);
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t stream) {
    HOSTCUDA_BEGIN();
    return fill(__func__, at, value, size, stream);
}
}
