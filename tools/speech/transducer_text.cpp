// SPDX-License-Identifier: Apache-2.0
#include "tools/speech/transducer_text.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <string_view>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/speech/audio_file.h"

namespace sinter::tools {
namespace {

constexpr std::size_t kHop = 160, kMostPieces = std::size_t{1} << 20;
constexpr std::uint64_t kMostFile = std::uint64_t{64} << 20;
constexpr std::string_view kSpace = "\u2581";
constexpr double kPause = 0.8;  // seconds

const BindingInfo* input_of(const Plan& plan, std::string_view name) {
  const auto at = std::ranges::find(plan.inputs(), name, &BindingInfo::name);
  return at == plan.inputs().end() ? nullptr : &*at;
}

SessionOptions with_host_outputs(SessionOptions options) {
  options.output_memory = Memory::kHost;
  return options;
}

std::vector<std::string> read_pieces(const std::string& file) {
  const std::string text = files::read_file(file, "", kMostFile);
  std::vector<std::string> pieces;
  for (std::size_t at = 0, line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view row(text.data() + at, end - at);
    at = end + 1;
    while (!row.empty() && (row.back() == '\r' || row.back() == ' ')) row.remove_suffix(1);
    if (row.empty()) continue;
    const std::size_t space = row.rfind(' ');
    std::size_t id = 0;
    const char* const last = row.data() + row.size();
    const char* const first = space == std::string_view::npos ? last : row.data() + space + 1;
    const auto [stop, problem] = std::from_chars(first, last, id);
    if (problem != std::errc() || stop != last || id != pieces.size() || id >= kMostPieces)
      throw usage_error("line {} of '{}' is no piece of text and the number {}", line, file,
                        pieces.size());
    pieces.emplace_back(row.substr(0, space));
  }
  if (pieces.size() < 2) throw usage_error("'{}' has {} tokens", file, pieces.size());
  return pieces;
}

bool ends_sentence(std::string_view piece) {
  return !piece.empty() && std::string_view(".?!").find(piece.back()) != std::string_view::npos;
}

}  // namespace

bool TransducerText::takes(const Plan& plan) {
  return plan.inputs().size() == 3 && input_of(plan, "audio") && input_of(plan, "samples") &&
         input_of(plan, "blank");
}

TransducerText::TransducerText(const Plan& plan, const std::string& tokens,
                               const SessionOptions& session)
    : session_(plan, with_host_outputs(session)), pieces_(read_pieces(tokens)) {
  const auto& shape = input_of(plan, "audio")->shape;
  least_ = static_cast<std::size_t>(shape.back().min) - kHop;
  most_ = static_cast<std::size_t>(shape.back().max) - 1;
}

std::string TransducerText::text_of(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    std::string_view piece = pieces_[static_cast<std::size_t>(id)];
    for (std::size_t at = 0; at != std::string_view::npos;) {
      const std::size_t next = piece.find(kSpace, at);
      text += piece.substr(at, next - at);
      if (next != std::string_view::npos) text += ' ';
      at = next == std::string_view::npos ? next : next + kSpace.size();
    }
  }
  return text;
}

std::vector<TransducerText::Token> TransducerText::run(std::span<const float> samples) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t count = std::max(samples.size(), least_), frames = count / kHop + 1;
  audio_.assign(frames * kHop, 0);
  std::ranges::copy(samples, audio_.begin());
  const auto sizes = std::vector{static_cast<std::int64_t>(count)};
  const auto blank = std::vector{static_cast<std::int64_t>(pieces_.size() - 1)};
  session_.set_input("audio", TensorView::of({1, std::ssize(audio_)}, audio_));
  session_.set_input("samples", TensorView::of({}, sizes));
  session_.set_input("blank", TensorView::of({}, blank));
  session_.run();
  const auto values = [&](const char* name) { return session_.output(name).as<std::int64_t>(); };
  const auto ids = values("tokens"), at = values("frames");
  const std::int64_t found = values("count")[0], encoded = values("encoded")[0];
  if (const std::int64_t choices = values("choices")[0]; choices < std::ssize(pieces_))
    throw usage_error("the list of tokens has {}, and the model chooses among {}", pieces_.size(),
                      choices);
  // An encoder halves the time once or several times, and rounds.
  const double halvings = std::round(std::log2(
      static_cast<double>(count / kHop) / static_cast<double>(std::max<std::int64_t>(1, encoded))));
  const double frame = std::exp2(halvings) * static_cast<double>(kHop) / kSampleRate;
  const double end = static_cast<double>(samples.size()) / kSampleRate;
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < found; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const double begin = std::min(end, static_cast<double>(at[place]) * frame);
    tokens.push_back({ids[place], begin, std::min(end, begin + frame)});
  }
  times_.push_back(
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  return tokens;
}

namespace {

/// Where to cut sound that is too long: the middle of the quietest 50 ms in the last quarter of
/// what fits.
std::size_t quietest(std::span<const float> samples, std::size_t most) {
  constexpr std::size_t kPart = kSampleRate / 20;
  std::size_t best = most;
  double least = -1;
  for (std::size_t at = most - most / 4; at + kPart <= most; at += kPart / 2) {
    double power = 0;
    for (const float x : samples.subspan(at, kPart)) power += static_cast<double>(x) * x;
    if (least < 0 || power < least) {
      least = power;
      best = at + kPart / 2;
    }
  }
  return best;
}

}  // namespace

Transcript TransducerText::transcribe(std::span<const float> samples,
                                      const std::function<void(const Segment&)>& show) {
  Transcript transcript;
  transcript.seconds = static_cast<double>(samples.size()) / kSampleRate;
  for (std::size_t at = 0; at < samples.size();) {
    const std::span<const float> rest = samples.subspan(at);
    const std::size_t size = rest.size() <= most_ ? rest.size() : quietest(rest, most_);
    const double from = static_cast<double>(at) / kSampleRate;
    Segment segment;
    const auto finish = [&] {
      if (segment.tokens.empty()) return;
      segment.text = text_of(segment.tokens);
      if (show) show(segment);
      transcript.segments.push_back(std::move(segment));
      segment = {};
    };
    for (const Token& token : run(rest.first(size))) {
      if (!segment.tokens.empty() && from + token.begin - segment.end > kPause) finish();
      if (segment.tokens.empty()) segment.begin = from + token.begin;
      segment.end = from + token.end;
      segment.tokens.push_back(token.id);
      if (ends_sentence(pieces_[static_cast<std::size_t>(token.id)])) finish();
    }
    finish();
    at += size;
  }
  return transcript;
}

}  // namespace sinter::tools
