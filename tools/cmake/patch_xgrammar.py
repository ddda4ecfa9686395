#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes xgrammar's sources, which tools/setup has put into FOLDER: patch_xgrammar.py FOLDER

Loops whose length a client's grammar decides count their work (support/work.h), so that Sinter can end them: some
grammars of a few hundred bytes compile for hours, or hold up every step of an engine. Nothing else of what they do changes.
And two things that left tokens out of masks: a token's subtree in the sorted vocabulary has the tokens that begin with it,
not those that have it anywhere; and behind a root rule that rules refer to something may follow.
"""
import sys
from pathlib import Path

INCLUDE = '#include "support/work.h"\n'
WORK = """// Added by Sinter (tools/cmake/patch_xgrammar.py).
#ifndef XGRAMMAR_SUPPORT_WORK_H_
#define XGRAMMAR_SUPPORT_WORK_H_

#include <cstddef>

namespace xgrammar {

/*! \\brief Counts units of some nanoseconds each. Throws where they are too many: what is being done has no result then. */
void CountWork(std::size_t units);

}  // namespace xgrammar

#endif  // XGRAMMAR_SUPPORT_WORK_H_
"""
ROOT = """  bool root_is_referenced = false;
  const auto& fsm_of_all = compiled_grammar_impl->grammar->complete_fsm;
  for (int state = 0; state < fsm_of_all.NumStates(); ++state) {
    for (const auto& edge : fsm_of_all.GetEdges(state)) {
      root_is_referenced =
          root_is_referenced || (edge.IsRuleRef() && edge.GetRefRuleId() == root_rule_id) ||
          (edge.IsRepeatRef() &&
           fsm_of_all.GetRepeatEdgeInfo(edge.GetAuxIndex()).RuleId() == root_rule_id);
    }
  }
"""
# Each anchor is there so many times; the text is put behind it.
ADDED = [
    ("cpp/earley_parser.cc", "bool RepeatDetector::IsVisited(const ParserState& state) const {\n", 1, "  CountWork(4);\n"),
    ("cpp/earley_parser.cc", "  const auto& parent_states_map = rule_id_to_completable_states_[state.rule_start_pos];\n", None,
     "  CountWork(1 + parent_states_map.size() / 8);\n"),
    ("cpp/earley_parser.cc", "          if (parent_state_iter.first != state.rule_id) continue;\n", 1,
     "          CountWork(1 + rule_id_to_completable_states_.Back().size() / 4);\n"),
    ("cpp/grammar_compiler.cc",
     "AdaptiveTokenMask GrammarMatcherForTokenMaskCache::GetAdaptiveTokenMask(bool is_root_rule) {\n", 1,
     "  CountWork(256 + static_cast<std::size_t>(tokenizer_info_.GetVocabSize()) / 8);\n"),
    ("cpp/grammar_functor.cc", "      for (auto referer_rule_id : rule_ref_graph[rule_id]) {\n", 1, "        CountWork(8);\n"),
    ("cpp/grammar_functor.h", "  virtual T VisitExpr(const GrammarExpr& grammar_expr) {\n", 1, "    CountWork(8);\n"),
    ("cpp/grammar_builder.cc", "std::string GrammarBuilder::GetNewRuleName(const std::string& name_hint) {\n", 1,
     "  CountWork(16);\n"),
    ("cpp/grammar_builder.cc", "    ++(*cnt);\n", 1, "    CountWork(16);\n"),
    ("cpp/fsm.cc", "  while (changed) {\n    int n = result.NumStates();\n", 1,
     "    CountWork(16 * static_cast<std::size_t>(n));\n"),
    ("cpp/grammar_compiler.cc", "  auto root_rule_id = compiled_grammar_impl->grammar->GetRootRuleId();\n", 1, ROOT),
]
REPLACED = [
    ("cpp/grammar_compiler.cc", "add_task_adaptive_token_mask(cur_stack_element, rule_id == root_rule_id);",
     "add_task_adaptive_token_mask(cur_stack_element, rule_id == root_rule_id && !root_is_referenced);"),
    ("cpp/tokenizer_info.cc", "(token.find(prefix_stack.top().first) == std::string::npos)",
     "(token.compare(0, prefix_stack.top().first.size(), prefix_stack.top().first) != 0)"),
]


def main():
    folder = Path(sys.argv[1])
    texts = {}

    def text_of(name):
        return texts.setdefault(name, (folder / name).read_text())

    def require(name, anchor, count):
        found = text_of(name).count(anchor)
        if found == 0 or count not in (None, found):
            sys.exit(f"patch_xgrammar.py: {name} has {anchor.strip()!r} {found} times: another version?")

    for name, anchor, count, added in ADDED:
        require(name, anchor, count)
        texts[name] = texts[name].replace(anchor, anchor + added)
    for name, old, new in REPLACED:
        require(name, old, 1)
        texts[name] = texts[name].replace(old, new)
    for name in {name for name, *_ in ADDED}:
        require(name, '#include "', None)
        texts[name] = texts[name].replace('#include "', INCLUDE + '#include "', 1)
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "cpp/support/work.h").write_text(WORK)


main()
