#include "tools/compiler/tuning/tuning_file.h"

#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "runtime/libraries/tuning_cache.h"

namespace sinter::tools {

namespace {

// An entry: environment "schedules sm_90 NVIDIA H200", problem "KEY VARIANT NAME", no blob, and the
// note "SCHEDULE | details".
constexpr std::string_view kEnvironment = "schedules ";
constexpr std::string_view kBar = " | ";

/// What is in front of the first blank; takes it and the blank off `text`.
std::string first_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::optional<KeptSchedule> as_schedule(const runtime::TunedChoice& choice) {
  std::string_view where = choice.environment, problem = choice.problem;
  if (!where.starts_with(kEnvironment)) return std::nullopt;
  where.remove_prefix(kEnvironment.size());
  KeptSchedule kept;
  kept.architecture = first_word(where);
  kept.gpu = where;
  kept.key = first_word(problem);
  const std::string variant = first_word(problem);
  const auto [end, error] =
      std::from_chars(variant.data(), variant.data() + variant.size(), kept.variant);
  if (error != std::errc() || end != variant.data() + variant.size()) return std::nullopt;
  kept.kernel = problem;
  const std::string& note = choice.algorithm.note;
  const std::size_t bar = note.find(kBar);
  kept.schedule = note.substr(0, bar);
  if (bar != note.npos) kept.details = note.substr(bar + kBar.size());
  kept.microseconds = choice.algorithm.microseconds;
  return kept;
}

}  // namespace

std::vector<KeptSchedule> read_schedules(const std::string& file) {
  std::vector<KeptSchedule> all;
  for (const runtime::TunedChoice& choice : runtime::check_tuning_file(file))
    if (auto kept = as_schedule(choice)) all.push_back(std::move(*kept));
  return all;
}

void keep_schedules(const std::string& file, const TuningMachine& machine,
                    const std::vector<TunedKernel>& kernels) {
  const auto cache = runtime::TuningCache::open(
      file, fmt::format("{}{} {}", kEnvironment, machine.architecture, machine.gpu));
  for (const TunedKernel& kernel : kernels) {
    if (kernel.rule_us <= 0) continue;
    runtime::TunedAlgorithm entry;
    entry.microseconds = kernel.chosen_us;
    entry.note = fmt::format("{}{}rule: {}, {:.2f} us; {} of {} tried; {}", kernel.chosen, kBar,
                             kernel.chosen == kernel.rule ? "the same" : kernel.rule,
                             kernel.rule_us, kernel.tried, kernel.candidates - 1, machine.versions);
    cache->store(fmt::format("{} {} {}", kernel.key, kernel.variant, kernel.name), entry);
  }
  if (!cache->save())
    throw Error(ErrorCode::kUsage, fmt::format("tuning cache '{}' cannot be written", file));
}

void copy_tuning(const std::string& from, const std::string& to) {
  if (!runtime::copy_tuning_file(from, to))
    throw Error(ErrorCode::kUsage, fmt::format("tuning cache '{}' cannot be written", to));
}

std::map<std::string, codegen::ChosenSchedules> schedules_for(
    const std::vector<KeptSchedule>& kept, const std::string& file, const std::string& architecture,
    const std::optional<std::string>& gpu) {
  std::set<std::string> gpus;
  for (const KeptSchedule& entry : kept)
    if (entry.architecture == architecture) gpus.insert(entry.gpu);
  if (!gpu && gpus.size() > 1)
    throw Error(ErrorCode::kUsage,
                fmt::format("tuning cache '{}' has schedules for several GPUs of {}: say which by "
                            "--tuning-gpu: {}",
                            file, architecture, fmt::join(gpus, ", ")));
  std::map<std::string, codegen::ChosenSchedules> chosen;
  for (const KeptSchedule& entry : kept)
    if (entry.architecture == architecture && (!gpu || entry.gpu == *gpu))
      chosen[entry.key][entry.variant] = {entry.schedule, fmt::format("tuning on {}", entry.gpu)};
  return chosen;
}

}  // namespace sinter::tools
