// SPDX-License-Identifier: Apache-2.0
#include "graphs/stream.h"

namespace sinter::graphs {

Stream::Stream(ContextPtr context) : handle_(std::move(context)) {
  const Context::Scope scope(*handle_.context());
  handle_.driver().stream_create(handle_.put(), CU_STREAM_NON_BLOCKING);
}

void Stream::synchronize() const { handle_.driver().stream_synchronize(handle()); }

Event::Event(ContextPtr context, bool timing) : handle_(std::move(context)) {
  const Context::Scope scope(*handle_.context());
  handle_.driver().event_create(handle_.put(), timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

void Event::record(CUstream stream) const { handle_.driver().event_record(handle_.get(), stream); }

void Event::synchronize() const { handle_.driver().event_synchronize(handle_.get()); }

void Event::make_wait(CUstream stream) const {
  handle_.driver().stream_wait_event(stream, handle_.get(), CU_EVENT_WAIT_DEFAULT);
}

double Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  handle_.driver().event_elapsed_time(&milliseconds, start.handle_.get(), handle_.get());
  return static_cast<double>(milliseconds) * 1000.0;
}

}  // namespace sinter::graphs
