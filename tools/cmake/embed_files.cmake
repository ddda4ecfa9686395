# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT: a C++ source with texts of FILES by their names, as the header HEADER declares it in
# namespace sinter::NAMESPACE: const std::vector<TYPE>& FUNCTION(), where TYPE is {name, text}.
set(text "#include \"${HEADER}\"\n\nnamespace sinter::${NAMESPACE} {\n\n")
string(APPEND text "const std::vector<${TYPE}>& ${FUNCTION}() {\n")
string(APPEND text "  static const std::vector<${TYPE}> files = {\n")
foreach(file ${FILES})
  # NAME=FILE, or FILE, whose name it is.
  if(file MATCHES "^([^=]+)=(.+)$")
    set(name ${CMAKE_MATCH_1})
    set(file ${CMAKE_MATCH_2})
  else()
    get_filename_component(name ${file} NAME)
  endif()
  file(READ ${file} body)
  # Not the licence's line, so that what is compiled of the text stays as it is, in caches, too.
  string(REGEX REPLACE "^// SPDX-License-Identifier: [^\n]*\n" "" body "${body}")
  string(APPEND text "    {\"${name}\", R\"file(${body})file\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace sinter::${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${text}")
