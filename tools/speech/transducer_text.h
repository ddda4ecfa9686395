// SPDX-License-Identifier: Apache-2.0
// Transducers (RNN-T, TDT): text of sound by one plan, which has the loop over tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sinter/plan.h>
#include <sinter/session.h>

#include "tools/speech/transcript.h"

namespace sinter::tools {

/// Used by one thread.
class TransducerText {
 public:
  /// Whether a plan is one (tools/compiler/build/transducer.h).
  static bool takes(const Plan& plan);

  /// `tokens`: path of a list of pieces, a line "piece id" for each, the last for "nothing". Throws
  /// Error(kUsage) for other files.
  TransducerText(const Plan& plan, const std::string& tokens, const SessionOptions& session);

  /// Of `samples` at kSampleRate. Sound that is longer than the plan takes is cut where it is
  /// quietest. A segment ends with a sentence or in front of a pause; `show` gets each.
  Transcript transcribe(std::span<const float> samples,
                        const std::function<void(const Segment&)>& show = {});
  /// Microseconds of each run.
  const std::vector<double>& times() const { return times_; }

 private:
  struct Token {
    std::int64_t id = 0;
    double begin = 0, end = 0;  // seconds
  };
  std::vector<Token> run(std::span<const float> samples);
  std::string text_of(std::span<const std::int64_t> ids) const;

  Session session_;
  std::vector<std::string> pieces_;
  std::size_t least_ = 0, most_ = 0;  // samples of a run
  std::vector<float> audio_;
  std::vector<double> times_;
};

}  // namespace sinter::tools
