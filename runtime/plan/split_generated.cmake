# SPDX-License-Identifier: Apache-2.0
# Splits flatc's header FROM into HEADER, which declares, and SOURCE, which defines what packs and
# unpacks whole tables. Left in the header, every file that includes it would instantiate templates
# for them anew, used or not.
file(READ "${FROM}" text)
string(REGEX MATCH "\ninline ([A-Za-z]+T \\*[A-Za-z]+::UnPack\\(|[A-Za-z]+T::[A-Za-z]+T\\()" first "${text}")
string(REGEX MATCH "\ninline const [A-Za-z:]+ \\*Get[A-Za-z]+\\(const void" last "${text}")
string(FIND "${text}" "${first}" begin)
string(FIND "${text}" "${last}" end)
if(first STREQUAL "" OR last STREQUAL "" OR NOT begin LESS end)
  message(FATAL_ERROR "${FROM} is not laid out as flatc 2 does: where definitions begin and end was not found")
endif()
math(EXPR length "${end} - ${begin}")
string(SUBSTRING "${text}" 0 ${begin} before)
string(SUBSTRING "${text}" ${begin} ${length} definitions)
string(SUBSTRING "${text}" ${end} -1 after)
string(REPLACE "\ninline " "\n" definitions "${definitions}")
string(REGEX MATCHALL "\nnamespace [a-z]+ {" opening "${before}")
string(REGEX MATCHALL "\n}  // namespace [a-z]+" closing "${after}")
list(JOIN opening "" opening)
list(JOIN closing "" closing)
file(WRITE "${HEADER}" "${before}\n${after}")
get_filename_component(name "${HEADER}" NAME)
file(WRITE "${SOURCE}" "#include \"${name}\"\n${opening}\n${definitions}\n${closing}\n")
