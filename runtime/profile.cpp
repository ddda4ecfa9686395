// Measurements of a session.
#include <fmt/format.h>
#include <sinter/profile.h>

#include "runtime/session_access.h"

namespace sinter {
namespace {

/// Nothing is in flight, and there was a run if `what` needs one.
runtime::Executor& quiet(SessionAccess::Impl& impl, const char* what, bool needs_run = true) {
  impl.check_loans(what);
  if (needs_run && !impl.has_run)
    throw Error(ErrorCode::kUsage, fmt::format("{} before the first run", what));
  if (impl.running) impl.await();
  return *impl.executor;
}

}  // namespace

double time_compute(Session& session, bool cold) {
  SessionAccess::Impl* impl = SessionAccess::impl(session).get();
  const SessionAccess::Impl::Use use(impl);
  return quiet(*impl, "time_compute").time_compute(cold);
}

TransferTimes time_transfers(Session& session) {
  SessionAccess::Impl* impl = SessionAccess::impl(session).get();
  const SessionAccess::Impl::Use use(impl);
  return quiet(*impl, "time_transfers").time_transfers();
}

std::vector<StepTime> profile_steps(Session& session) {
  SessionAccess::Impl* impl = SessionAccess::impl(session).get();
  const SessionAccess::Impl::Use use(impl);
  return quiet(*impl, "profile_steps").profile();
}

MachineRates measure_rates(Session& session) {
  SessionAccess::Impl* impl = SessionAccess::impl(session).get();
  const SessionAccess::Impl::Use use(impl);
  return quiet(*impl, "measure_rates", false).measure_rates();
}

}  // namespace sinter
