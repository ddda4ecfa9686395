// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#pragma once

#include "graphs/device.h"

namespace sinter::graphs {

/// A stream that does not wait for the legacy default stream.
class Stream {
 public:
  explicit Stream(ContextPtr context);

  CUstream handle() const { return handle_.get(); }
  /// Waits for all work so far. Throws Error(kDevice) for an error of that work.
  void synchronize() const;

 private:
  Owned<CUstream, &Driver::stream_destroy> handle_;
};

class Event {
 public:
  /// An event without timing is cheaper to record and to wait for.
  Event(ContextPtr context, bool timing);

  void record(CUstream stream) const;
  void synchronize() const;
  /// Work that is put on `stream` from now on starts after the last record.
  void make_wait(CUstream stream) const;
  /// From `start` to this event, both with timing and completed.
  double microseconds_since(const Event& start) const;

 private:
  Owned<CUevent, &Driver::event_destroy> handle_;
};

}  // namespace sinter::graphs
