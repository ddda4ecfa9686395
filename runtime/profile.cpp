// SPDX-License-Identifier: Apache-2.0
// Measurements of a session.
#include <sinter/profile.h>

#include "runtime/format_error.h"
#include "runtime/session_access.h"

namespace sinter {
namespace {

/// Calls `body` with the executor while no run is in flight; throws if `what` needs a previous run
/// and there is none.
template <typename Body>
auto measured(Session& session, const char* what, const Body& body, bool needs_run = true) {
  SessionAccess::Impl* impl = SessionAccess::impl(session).get();
  const SessionAccess::Impl::Use use(impl);
  impl->check_loans(what);
  if (needs_run && !impl->has_run) throw usage_error("{} before the first run", what);
  if (impl->running) impl->await();
  return body(*impl->executor);
}

}  // namespace

double time_compute(Session& session, bool cold) {
  return measured(session, "time_compute",
                  [&](auto& executor) { return executor.time_compute(cold); });
}

TransferTimes time_transfers(Session& session) {
  return measured(session, "time_transfers",
                  [](auto& executor) { return executor.time_transfers(); });
}

std::vector<StepTime> profile_steps(Session& session) {
  return measured(session, "profile_steps", [](auto& executor) { return executor.profile(); });
}

MachineRates measure_rates(Session& session) {
  const auto measure = [](auto& executor) { return executor.measure_rates(); };
  return measured(session, "measure_rates", measure, false);
}

}  // namespace sinter
