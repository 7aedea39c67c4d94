# cmake -DFOLDER=... -DHEADER=... -P source_hash.cmake: writes a header with a hash of the library's
# sources, by which processes of one job find out that they run different ones.
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/src/*.c ${FOLDER}/src/*.h ${FOLDER}/src/*.def
     ${FOLDER}/include/yoke/*.h)
list(SORT files)
set(hashes "")
foreach(file ${files})
  file(SHA256 ${FOLDER}/${file} hash)
  string(APPEND hashes "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${HEADER} "#define YOKE_SOURCES \"${hash}\"\n")
