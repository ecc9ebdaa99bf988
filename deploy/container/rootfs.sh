#!/bin/sh
# rootfs.sh PROGRAM FOLDER: lays out the root of the image: the program without debug symbols, the libraries that it is linked with,
# what the C library needs to look up users and names, the certificates of the system, one user.
set -eu
# Its user is nobody of this machine, so all of it is for everybody to read.
umask 022
program=$1
root=$2
[ -x "$program" ] || { echo "$program is no program" >&2; exit 1; }
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/var/lib/callboard" "$root/tmp"
chmod 1777 "$root/tmp"
strip -o "$root/usr/bin/callboard" "$program"
chmod 0755 "$root/usr/bin/callboard"
copy() {
  mkdir -p "$root$(dirname "$1")"
  cp -L "$1" "$root$1"
}
ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | sort -u | while read -r library; do
  copy "$library"
done
# Loaded by name when users or hosts are looked up; newer C libraries have them inside.
libc=$(ldd "$program" | sed -n 's/.*=> \(\/[^ ]*libc\.so[^ ]*\) .*/\1/p')
for library in "$(dirname "$libc")"/libnss_files.so.2 "$(dirname "$libc")"/libnss_dns.so.2; do
  [ ! -e "$library" ] || copy "$library"
done
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || copy /etc/ssl/certs/ca-certificates.crt
echo 'callboard:x:65532:65532::/var/lib/callboard:/usr/bin/callboard' > "$root/etc/passwd"
echo 'callboard:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
if [ "$(id -u)" = 0 ]; then chown 65532:65532 "$root/var/lib/callboard"; fi
du -sk "$root" | sed 's/\([0-9]*\).*/\1 KiB/'
