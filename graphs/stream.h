// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#pragma once

#include "graphs/device.h"

namespace sinter::graphs {

/// A stream that does not synchronize with the legacy default stream.
class Stream {
 public:
  explicit Stream(ContextPtr context);

  CUstream handle() const { return handle_.get(); }
  /// Waits for all earlier work. Throws Error(kDevice) for an error of that work.
  void synchronize() const;

 private:
  Owned<CUstream, &Driver::stream_destroy> handle_;
};

class Event {
 public:
  /// Events without timing are cheaper to record and to wait for.
  Event(ContextPtr context, bool timing);

  void record(CUstream stream) const;
  void synchronize() const;
  /// Later work on `stream` starts after the last record of this event.
  void make_wait(CUstream stream) const;
  /// Time from `start` to this event; both need timing and must have completed.
  double microseconds_since(const Event& start) const;

 private:
  Owned<CUevent, &Driver::event_destroy> handle_;
};

}  // namespace sinter::graphs
