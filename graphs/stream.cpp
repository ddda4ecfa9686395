#include "graphs/stream.h"

#include <utility>

namespace sinter::graphs {

Stream::Stream(ContextPtr context) : context_(std::move(context)) {
  const Context::Scope scope(*context_);
  context_->driver().stream_create(&handle_, CU_STREAM_NON_BLOCKING);
}

Stream::~Stream() {
  const auto scope = context_->scope_nothrow();
  context_->driver().stream_destroy.raw(handle_);
}

void Stream::synchronize() const { context_->driver().stream_synchronize(handle_); }

Event::Event(ContextPtr context, bool timing) : context_(std::move(context)) {
  const Context::Scope scope(*context_);
  context_->driver().event_create(&handle_, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

Event::~Event() {
  if (!handle_) return;
  const auto scope = context_->scope_nothrow();
  context_->driver().event_destroy.raw(handle_);
}

Event::Event(Event&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

void Event::record(CUstream stream) const { context_->driver().event_record(handle_, stream); }

void Event::synchronize() const { context_->driver().event_synchronize(handle_); }

void Event::make_wait(CUstream stream) const {
  context_->driver().stream_wait_event(stream, handle_, CU_EVENT_WAIT_DEFAULT);
}

double Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  context_->driver().event_elapsed_time(&milliseconds, start.handle_, handle_);
  return static_cast<double>(milliseconds) * 1000.0;
}

}  // namespace sinter::graphs
