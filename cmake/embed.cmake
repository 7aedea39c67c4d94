# Writes page.css and page.js of FOLDER as the C constants cli_page_css and cli_page_js to OUTPUT.
set(text "extern const char cli_page_css[], cli_page_js[];\n")
foreach(kind css js)
  file(READ ${FOLDER}/page.${kind} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND text "const char cli_page_${kind}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
