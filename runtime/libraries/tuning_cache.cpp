// SPDX-License-Identifier: Apache-2.0
#include "runtime/libraries/tuning_cache.h"

#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/files/input_file.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "sinter-tuning 2";
constexpr std::uint64_t kMaxFileBytes = 64u << 20;
constexpr std::size_t kMaxWords = 128;
constexpr const char* kThorough = " (thorough)";

// FNV-1a: detects truncation and stray edits, not an adversary; libraries check every algorithm
// again before use.
std::uint64_t checksum(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

bool parse_hex(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Tabs separate fields and line ends separate entries, but a plan's names may contain both.
std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

// checksum \t environment \t problem \t blob as hexadecimal words \t microseconds \t note
std::string print_entry(const std::string& environment, const std::string& problem,
                        const TunedAlgorithm& algorithm) {
  std::string blob;
  for (const std::uint64_t word : algorithm.blob)
    blob += fmt::format("{}{:016x}", blob.empty() ? "" : ",", word);
  const std::string text = fmt::format("{}\t{}\t{}\t{:.3f}\t{}", environment, problem, blob,
                                       algorithm.microseconds, printable(algorithm.note));
  return fmt::format("{:016x}\t{}", checksum(text), text);
}

bool parse_blob(std::string_view text, AlgorithmBlob& blob) {
  blob.clear();
  if (text.empty()) return true;
  const auto words = split(text, ',');
  if (words.size() > kMaxWords) return false;
  blob.resize(words.size());
  for (std::size_t i = 0; i < blob.size(); ++i)
    if (!parse_hex(words[i], blob[i])) return false;
  return true;
}

bool parse_entry(std::string_view line, TunedChoice& choice) {
  const std::size_t tab = line.find('\t');
  std::uint64_t expected = 0;
  if (tab == std::string_view::npos || !parse_hex(line.substr(0, tab), expected)) return false;
  const std::string_view text = line.substr(tab + 1);
  const auto fields = split(text, '\t');
  TunedAlgorithm& algorithm = choice.algorithm;
  if (checksum(text) != expected || fields.size() != 5 || !parse_blob(fields[2], algorithm.blob))
    return false;
  const char* end = fields[3].data() + fields[3].size();
  const auto parsed = std::from_chars(fields[3].data(), end, algorithm.microseconds);
  if (parsed.ec != std::errc()) return false;
  choice.environment = fields[0];
  choice.problem = fields[1];
  algorithm.note = fields[4];
  return true;
}

}  // namespace

std::shared_ptr<TuningCache> TuningCache::open(const std::string& file,
                                               const std::string& environment) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, std::shared_ptr<TuningCache>> caches;
  const std::lock_guard lock(mutex);
  std::error_code error;
  std::string absolute = file.empty() ? file : fs::absolute(file, error).string();
  if (error) absolute = file;
  auto& cache = caches[{absolute, environment}];
  if (!cache) cache.reset(new TuningCache(absolute, environment));
  return cache;
}

TuningCache::TuningCache(std::string file, std::string environment)
    : file_(std::move(file)), environment_(std::move(environment)), entries_(read(file_)) {}

TuningCache::Entries TuningCache::read(const std::string& file) {
  Entries entries;
  if (file.empty()) return entries;
  std::istringstream stream;
  try {
    stream.str(files::read_file(file, "tuning cache", kMaxFileBytes));
  } catch (const Error&) {
    return entries;
  }
  std::string line;
  if (!std::getline(stream, line) || line != kFirstLine) return entries;
  TunedChoice choice;
  while (std::getline(stream, line))
    if (parse_entry(line, choice)) entries[{choice.environment, choice.problem}] = choice.algorithm;
  return entries;
}

std::vector<TunedChoice> check_tuning_file(const std::string& file) {
  std::istringstream stream(files::read_file(file, "tuning cache", kMaxFileBytes));
  const auto refuse = [&](std::size_t number, const std::string& why) {
    throw usage_error("tuning cache '{}', line {}: {}", file, number, why);
  };
  std::string line;
  if (!std::getline(stream, line) || line != kFirstLine)
    refuse(1, fmt::format("the file does not begin with '{}': it is none, or another version's",
                          kFirstLine));
  TuningCache::Entries entries;
  TunedChoice choice;
  for (std::size_t number = 2; std::getline(stream, line); ++number) {
    if (!parse_entry(line, choice))
      refuse(number,
             "malformed, or edited since it was written (its checksum is another): delete "
             "the line, or tune again");
    entries[{choice.environment, choice.problem}] = choice.algorithm;
  }
  std::vector<TunedChoice> choices;
  for (auto& [key, algorithm] : entries)
    choices.push_back({key.first, key.second, std::move(algorithm)});
  return choices;
}

bool copy_tuning_file(const std::string& from, const std::string& to) {
  TuningCache::Entries entries = TuningCache::read(from);
  if (entries.empty()) return true;
  for (auto& [key, algorithm] : TuningCache::read(to)) entries.try_emplace(key, algorithm);
  return TuningCache::write(to, entries);
}

std::vector<TunedChoice> read_tuning_file(const std::string& file) {
  std::vector<TunedChoice> choices;
  for (auto& [key, algorithm] : TuningCache::read(file))
    choices.push_back({key.first, key.second, std::move(algorithm)});
  return choices;
}

std::optional<TunedAlgorithm> TuningCache::find(const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find({environment_, problem});
  if (at == entries_.end()) return std::nullopt;
  return at->second;
}

void TuningCache::store(const std::string& problem, const TunedAlgorithm& algorithm) {
  const std::lock_guard lock(mutex_);
  entries_[{environment_, problem}] = algorithm;
  dirty_ = true;
}

std::optional<TunedAlgorithm> TuningCache::find(const std::string& problem, bool thorough) const {
  auto found = find(problem + kThorough);
  return found || thorough ? found : find(problem);
}

void TuningCache::store(const std::string& problem, const TunedAlgorithm& algorithm,
                        bool thorough) {
  store(thorough ? problem + kThorough : problem, algorithm);
}

bool TuningCache::save() {
  const std::lock_guard lock(mutex_);
  if (!dirty_) return true;
  dirty_ = false;
  if (file_.empty()) return true;
  for (auto& [key, algorithm] : read(file_)) entries_.try_emplace(key, algorithm);
  return write(file_, entries_);
}

bool TuningCache::write(const std::string& file, const Entries& entries) {
  std::error_code error;
  fs::create_directories(fs::path(file).parent_path(), error);
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const auto& [key, algorithm] : entries)
    text += print_entry(key.first, key.second, algorithm) + '\n';
  try {
    files::write_file(file, text, {.what = "the tuning cache"});
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace sinter::runtime
