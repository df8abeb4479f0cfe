#include "stream.h"
#include "race.h"
#include <chrono>

using namespace hostcuda;

namespace {

/* Completion of the work before an event. */
struct moment {
    bool passed = false;
    std::chrono::steady_clock::time_point time;
};

std::vector<std::unique_ptr<CUstream_st>> streams;
std::vector<cudaEvent_t> events;

CUstream_st &legacy() {
    static CUstream_st stream = {true, 0, false, {}, 0, 0};
    return stream;
}

} // namespace

struct CUevent_st {
    bool timed;
    std::shared_ptr<moment> last; /* of the last record; nullptr: none */
    mark at = {nullptr, 0};
};

namespace hostcuda {

cudaStream_t stream_of(cudaStream_t handle) {
    if (!handle || handle == cudaStreamLegacy) {
        return &legacy();
    }
    for (auto &stream : streams) {
        if (stream.get() == handle && !stream->destroyed) {
            return handle;
        }
    }
    return nullptr;
}

namespace {

cudaError_t unknown(const char *what, const void *handle) {
    return fail(cudaErrorInvalidResourceHandle, "%p is no %s", handle, what);
}

/* The legacy stream follows all blocking streams, and they follow it. */
void follow_legacy(CUstream_st &stream, operation &next) {
    if (&stream == &legacy()) {
        for (auto &other : streams) {
            if (other->blocking && other->done < other->enqueued) {
                next.after.push_back({other.get(), other->enqueued});
            }
        }
    } else if (stream.blocking && legacy().done < legacy().enqueued) {
        next.after.push_back({&legacy(), legacy().enqueued});
    }
}

cudaError_t push(CUstream_st &stream, action run, std::vector<mark> after) {
    operation next = {std::move(run), std::move(after), race::issue()};
    follow_legacy(stream, next);
    stream.queue.push_back(std::move(next));
    ++stream.enqueued;
    return cudaSuccess;
}

cudaError_t run_one(CUstream_st &stream) {
    operation next = std::move(stream.queue.front());
    stream.queue.pop_front();
    cudaError_t error = cudaSuccess;
    for (const mark &m : next.after) {
        if (error == cudaSuccess) {
            error = run_until(m.stream, m.number);
        }
    }
    if (error == cudaSuccess) {
        race::begin_operation(&stream, next.issued, next.after);
        error = next.run();
        race::end_operation(&stream);
        if (race::take_count() > 0 && error == cudaSuccess) {
            error = cudaErrorLaunchFailure;
        }
    }
    ++stream.done;
    return note(error);
}

/* With a seed, other streams also advance now and then. */
void stray() {
    const uint64_t number = setting().seed && !streams.empty() ? chance(2 * streams.size()) : ~0ull;
    if (number < streams.size() && !streams[number]->queue.empty()) {
        run_until(streams[number].get(), streams[number]->done + 1);
    }
}

} // namespace

cudaError_t run_until(cudaStream_t stream, uint64_t number) {
    const access open;
    cudaError_t error = cudaSuccess;
    while (error == cudaSuccess && stream->done < number && !stream->queue.empty()) {
        error = run_one(*stream);
    }
    return error;
}

cudaError_t drain(cudaStream_t stream) {
    const access open;
    stray();
    if (cudaError_t error = run_until(stream, stream->enqueued)) {
        return error;
    }
    race::host_waited(stream, stream->done);
    return check_red_zones();
}

cudaError_t drain_all() {
    const access open;
    cudaError_t error = run_until(&legacy(), legacy().enqueued);
    race::host_waited(&legacy(), legacy().done);
    for (auto &stream : streams) {
        if (error == cudaSuccess) {
            error = run_until(stream.get(), stream->enqueued);
            race::host_waited(stream.get(), stream->done);
        }
    }
    return error ? error : check_red_zones();
}

bool is_current(cudaStream_t handle) {
    const CUstream_st *stream = stream_of(handle);
    return !stream || stream == &legacy() || stream->device == device();
}

cudaError_t enqueue(cudaStream_t handle, action work) {
    CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return unknown("stream", handle);
    }
    return push(*stream, std::move(work), {});
}

void release_streams() {
    streams.clear();
    for (cudaEvent_t event : events) {
        delete event;
    }
    events.clear();
    legacy() = {true, 0, false, {}, 0, 0};
}

namespace {

/* The host has seen that the event has passed. */
void host_passed(const CUevent_st &event) {
    if (event.last) {
        race::host_waited(event.at.stream, event.at.number);
    }
}

cudaEvent_t event_of(cudaEvent_t handle) {
    for (cudaEvent_t event : events) {
        if (event == handle) {
            return handle;
        }
    }
    return nullptr;
}

} // namespace

} // namespace hostcuda

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    HOSTCUDA_BEGIN();
    if (flags & ~(unsigned)cudaStreamNonBlocking) {
        return fail(cudaErrorInvalidValue, "cudaStreamCreateWithFlags: unknown flags %#x", flags);
    }
    streams.push_back(std::make_unique<CUstream_st>());
    streams.back()->blocking = !(flags & cudaStreamNonBlocking);
    streams.back()->device = device();
    *stream = streams.back().get();
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    if (!stream || stream == &legacy()) {
        return unknown("stream to destroy", handle);
    }
    const cudaError_t error = drain(stream);
    stream->destroyed = true;
    return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return unknown("stream", handle);
    }
    return drain(stream);
}

/* Each query lets one more operation pass. */
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return unknown("stream", handle);
    }
    if (stream->queue.empty()) {
        race::host_waited(stream, stream->done);
        return check_red_zones();
    }
    const cudaError_t error = run_until(stream, stream->done + 1);
    return error ? error : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t handle_of_event, unsigned flags) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    CUevent_st *event = event_of(handle_of_event);
    if (!stream || !event || flags != cudaEventWaitDefault) {
        return stream ? unknown("event", handle_of_event) : unknown("stream", handle);
    }
    if (!event->last || event->last->passed) {
        return cudaSuccess;
    }
    return push(*stream, [] { return cudaSuccess; }, {event->at});
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    HOSTCUDA_BEGIN();
    if (flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming)) {
        return fail(cudaErrorInvalidValue, "cudaEventCreateWithFlags: unknown flags %#x", flags);
    }
    *event = new CUevent_st();
    (*event)->timed = !(flags & cudaEventDisableTiming);
    events.push_back(*event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventRecord(cudaEvent_t handle_of_event, cudaStream_t handle) {
    HOSTCUDA_BEGIN();
    CUstream_st *stream = stream_of(handle);
    CUevent_st *event = event_of(handle_of_event);
    if (!stream || !event) {
        return stream ? unknown("event", handle_of_event) : unknown("stream", handle);
    }
    auto passed = std::make_shared<moment>();
    const cudaError_t error = enqueue(handle, [passed] {
        passed->passed = true;
        passed->time = std::chrono::steady_clock::now();
        return cudaSuccess;
    });
    event->last = passed;
    event->at = {stream, stream->enqueued};
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    HOSTCUDA_BEGIN();
    CUevent_st *event = event_of(handle);
    if (!event) {
        return unknown("event", handle);
    }
    stray();
    if (event->last && !event->last->passed) {
        if (cudaError_t error = run_until(event->at.stream, event->at.number)) {
            return error;
        }
    }
    host_passed(*event);
    return check_red_zones();
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    HOSTCUDA_BEGIN();
    CUevent_st *event = event_of(handle);
    if (!event) {
        return unknown("event", handle);
    }
    if (!event->last || event->last->passed) {
        host_passed(*event);
        return cudaSuccess;
    }
    const cudaError_t error = run_until(event->at.stream, event->at.stream->done + 1);
    return error ? error : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    HOSTCUDA_BEGIN();
    CUevent_st *first = event_of(start), *last = event_of(end);
    if (!first || !last || !first->timed || !last->timed || !first->last || !last->last) {
        return fail(cudaErrorInvalidResourceHandle, "%s of events that keep no time", __func__);
    }
    if (!first->last->passed || !last->last->passed) {
        return cudaErrorNotReady;
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(last->last->time - first->last->time).count();
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    HOSTCUDA_BEGIN();
    for (size_t i = 0; i < events.size(); ++i) {
        if (events[i] == handle) {
            delete handle;
            events.erase(events.begin() + (long)i);
            return cudaSuccess;
        }
    }
    return unknown("event", handle);
}
}
